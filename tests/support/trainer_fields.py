"""What the Trainer knew in each release of transformers, for tests."""

from __future__ import annotations

from pathlib import Path

TEXT = Path(__file__).parents[1] / "data" / "fields.txt"


def read_history() -> dict[tuple[int, int], frozenset[str]]:
    """Read release -> names of the fields of Seq2SeqTrainingArguments."""
    history: dict[tuple[int, int], frozenset[str]] = {}
    known: set[str] = set()
    lines = [line for line in TEXT.read_text().splitlines() if not line.startswith("#")]
    for text in "\n".join(lines).replace("\n    ", " ").splitlines():
        release, *words = text.split()
        known -= {word[1:] for word in words if word.startswith("-")}
        known |= {word.lstrip("+") for word in words if not word.startswith("-")}
        major, minor = release.split(".")
        history[int(major), int(minor)] = frozenset(known)
    return history


HISTORY = read_history()
EVER = frozenset().union(*HISTORY.values())
