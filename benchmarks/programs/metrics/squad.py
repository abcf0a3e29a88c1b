"""How many answers are right, and the F1 of their words."""

from __future__ import annotations

import collections
from typing import Any

import datasets
import evaluate

TEXT = datasets.Value("string")
ANSWERS = {"text": [TEXT], "answer_start": [datasets.Value("int32")]}


class Squad(evaluate.Metric):
    """Compare answers with the one that a question has."""

    def _info(self) -> evaluate.MetricInfo:
        kinds = {
            "predictions": {"id": TEXT, "prediction_text": TEXT}, "references": {"id": TEXT, "answers": ANSWERS},
        }  # fmt: skip
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(kinds))

    def _compute(self, predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> dict[str, float]:
        pairs = [
            (given["prediction_text"].split(), right["answers"]["text"][0].split())
            for given, right in zip(predictions, references, strict=True)
        ]
        common = (sum((collections.Counter(one) & collections.Counter(other)).values()) for one, other in pairs)
        f1 = sum(2 * both / (len(one) + len(other)) for both, (one, other) in zip(common, pairs, strict=True))
        return {
            "exact_match": 100 * sum(one == other for one, other in pairs) / len(pairs),
            "f1": 100 * f1 / len(pairs),
        }
