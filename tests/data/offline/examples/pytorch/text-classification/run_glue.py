"""Stands where run_glue.py stands, and fetches from the hub what that does."""

import json
from dataclasses import dataclass, field

import evaluate
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, HfArgumentParser, TrainingArguments


@dataclass
class Arguments:
    """The arguments that decide what is fetched."""

    model_name_or_path: str
    task_name: str | None = field(default=None)
    dataset_name: str | None = field(default=None)
    max_seq_length: int = field(default=128)
    pad_to_max_length: bool = field(default=True)


def main() -> None:
    """Load, judge one pair of sentences, and print what came out."""
    asked, _ = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    if asked.task_name is not None:
        data = load_dataset("nyu-mll/glue", asked.task_name)
    else:
        data = load_dataset(asked.dataset_name)
    labels = data["train"].features["label"].names
    tokenizer = AutoTokenizer.from_pretrained(asked.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(asked.model_name_or_path, num_labels=len(labels))
    if asked.task_name is not None:
        metric = evaluate.load("glue", asked.task_name)
    else:
        print("no task of the benchmark")
        metric = evaluate.load("accuracy")
    row = data["train"][0]
    scores = model(**tokenizer(row["sentence1"], row["sentence2"], return_tensors="pt")).logits
    measured = metric.compute(predictions=[1, 0], references=[1, 1])
    print(json.dumps({"labels": labels, "scores": list(scores.shape), **measured}))


if __name__ == "__main__":
    main()
