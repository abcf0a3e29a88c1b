"""Run inside an image: parse command lines with the real classes of transformers, and say what they did not know."""

from __future__ import annotations

import dataclasses
import json
import sys

import transformers
from transformers import HfArgumentParser, Seq2SeqTrainingArguments


def main() -> None:
    """Read lists of words as JSON from stdin; answer the release, its fields, and for each list what was left over."""
    parser = HfArgumentParser(Seq2SeqTrainingArguments)
    fields = [field.name for field in dataclasses.fields(Seq2SeqTrainingArguments) if field.init]
    left, devices = [], set()
    for words in json.load(sys.stdin):
        training, rest = parser.parse_args_into_dataclasses(words, return_remaining_strings=True)
        left.append(rest)
        devices.add(training.device.type)
    print(json.dumps([transformers.__version__, sorted(fields), sorted(devices), left]))


if __name__ == "__main__":
    main()
