"""What `smoke` trains, says and leaves behind in a process that is alone; two_ranks.py has more of them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState

from multinode_image.hooks.step.gradients import SEEN
from multinode_image.programs import smoke


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 0, r"passed: world_size=1 backend=none dtype=float32 loss_before=3\.\d{4} loss_after=[01]\.\d{4} "
                r"samples_per_second=\d+ seconds=\d+\.\d\d all_reduce_seconds=0\.12 weights=[0-9a-f]{16}$"),
        (["--max_steps", "1"], 1, r"failed: the loss went from 3\.\d+ to [23]\.\d+, it had to fall below 1\.\d+"),
        (["--bf16", "--max_epochs", "1"], 2, "failed: not a flag of the Trainer: --max_epochs 1$"),
    ],
)  # fmt: skip
def test_smoke_says_in_one_line_how_it_ended(
    words: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    AcceleratorState._reset_state(True)  # of trainings before, in this process, as the variable (training_args.py)
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    codes = list[int]()
    monkeypatch.setattr(smoke, "leave", codes.append)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(SEEN, "waited", 0.125)

    smoke.main(words, {}, str(tmp_path / "outside an image"))

    assert codes == [code] and [*tmp_path.iterdir()] == []
    streams = capsys.readouterr()
    lines = [line for stream in streams for line in stream.splitlines() if re.match("smoke: (passed|failed)", line)]
    assert len(lines) == 1 and re.match(f"smoke: {said}", lines[0])
    assert streams.out.splitlines() == lines * (code == 0)
    assert streams.err.count("smoke: first step done ") == (code < 2)


def test_an_answer_is_between_two_marks_and_the_same_on_all_ranks() -> None:
    questions = smoke.Questions(64, 7)

    for row, same in zip(questions, smoke.Questions(64, 7), strict=True):
        words, start, end = row["input_ids"].tolist(), int(row["start_positions"]), int(row["end_positions"])
        assert all(torch.equal(row[name], same[name]) for name in row)
        assert (words[0], words[start], words[end], words[-1], len(words)) == (1, 3, 4, 2, 32)
        assert 1 <= start < end <= 30 and end - start <= 7
        assert all(8 <= word < 256 for place, word in enumerate(words) if place not in (0, start, end, 31))
        assert row["attention_mask"].tolist() == [1] * 32
    assert len(questions) == 64 and len({tuple(row["input_ids"].tolist()) for row in questions}) == 64
