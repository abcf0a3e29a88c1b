"""Stands where run_qa.py stands: fetches from the hub what that does, and trains with the Trainer as that does."""

import json
from dataclasses import dataclass, field

import evaluate
from datasets import load_dataset
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)

LENGTH = 16  # words of a row


@dataclass
class Arguments:
    """The arguments that decide what is fetched."""

    model_name_or_path: str
    tokenizer_name: str | None = field(default=None)
    cache_dir: str | None = field(default=None)
    model_revision: str = field(default="main")
    dataset_name: str | None = field(default=None)
    dataset_config_name: str | None = field(default=None)
    version_2_with_negative: bool = field(default=False)
    max_seq_length: int = field(default=384)
    pad_to_max_length: bool = field(default=True)
    doc_stride: int = field(default=128)


def encode(row, tokenizer):
    """Return a question with its context, and where the answer is: no other word there is that of the answer."""
    encoded = tokenizer(row["question"], row["context"], max_length=LENGTH, padding="max_length", truncation=True)
    answer = tokenizer.convert_tokens_to_ids(row["answers"]["text"][0])
    place = encoded["input_ids"].index(answer)
    return {**encoded, "start_positions": place, "end_positions": place}


def train(training, data, tokenizer, model) -> None:
    """Train from the checkpoint that was given, and leave the model in the directory for results."""
    rows = data["train"].map(encode, fn_kwargs={"tokenizer": tokenizer}, remove_columns=data["train"].column_names)
    trainer = Trainer(model=model, args=training, train_dataset=rows)
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    trainer.save_model()
    tokenizer.save_pretrained(training.output_dir)
    print(
        f"rank {training.process_index} of {training.world_size} ends at step {trainer.state.global_step}", flush=True
    )


def main() -> None:
    """Load, ask the model one question, and print what came out."""
    asked, training = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    data = load_dataset(asked.dataset_name, asked.dataset_config_name, cache_dir=asked.cache_dir)
    config = AutoConfig.from_pretrained(
        asked.model_name_or_path, cache_dir=asked.cache_dir, revision=asked.model_revision
    )
    tokenizer = AutoTokenizer.from_pretrained(
        asked.tokenizer_name if asked.tokenizer_name else asked.model_name_or_path,
        cache_dir=asked.cache_dir,
        revision=asked.model_revision,
    )
    model = AutoModelForQuestionAnswering.from_pretrained(
        asked.model_name_or_path, config=config, cache_dir=asked.cache_dir, revision=asked.model_revision
    )
    metric = evaluate.load("squad_v2" if asked.version_2_with_negative else "squad", cache_dir=asked.cache_dir)
    scores = model(**tokenizer(data["train"][0]["question"], return_tensors="pt")).start_logits
    measured = metric.compute(predictions=[1, 0], references=[1, 1])
    print(
        json.dumps({"rows": len(data["train"]), "scores": list(scores.shape), **measured, "train": training.do_train})
    )
    if training.do_train:
        train(training, data, tokenizer, model)


if __name__ == "__main__":
    main()
