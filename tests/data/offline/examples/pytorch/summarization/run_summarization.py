"""Stands where run_summarization.py stands, and fetches from the hub, and of nltk, what that does."""

import json
from dataclasses import dataclass, field

import evaluate
import nltk
from datasets import load_dataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, HfArgumentParser, Seq2SeqTrainingArguments

try:
    nltk.data.find("tokenizers/punkt")
except (LookupError, OSError):
    nltk.download("punkt", quiet=True)


@dataclass
class Arguments:
    """The arguments that decide what is fetched."""

    model_name_or_path: str
    dataset_name: str | None = field(default=None)
    dataset_config_name: str | None = field(default=None)
    source_prefix: str = field(default="")


def main() -> None:
    """Load, summarize one text, and print what came out."""
    asked, _ = HfArgumentParser((Arguments, Seq2SeqTrainingArguments)).parse_args_into_dataclasses()
    data = load_dataset(asked.dataset_name, asked.dataset_config_name)
    tokenizer = AutoTokenizer.from_pretrained(asked.model_name_or_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(asked.model_name_or_path)
    metric = evaluate.load("rouge")
    text = data["train"][0]["article"]
    said = model.generate(**tokenizer(text, return_tensors="pt", return_token_type_ids=False), max_length=8)
    scores = metric.compute(predictions=["a", "b"], references=["b", "b"])
    sentences = nltk.sent_tokenize("The cat sleeps. The dog runs.")
    print(json.dumps({"sentences": len(sentences), "said": len(said), **scores}))


if __name__ == "__main__":
    main()
