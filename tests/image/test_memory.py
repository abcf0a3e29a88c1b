"""What `--explain` says of memory, beside what a rank takes: a few steps of models with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.pages.memory import read_measured
from tests.support.harness import run

SCRIPT = Path(__file__).with_name("peak_of_rank.py")
NEAR = 0.3
MODELS = read_measured().models

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("model", "words"),
    [("MiniLM", "8 128"), ("DistilBERT", "8 128 --bf16"), ("DistilBERT", "4 384"), ("BERT", "8 128 --bf16")],
)
def test_a_rank_takes_about_as_much_as_was_estimated(image: str, tmp_path: Path, model: str, words: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps(MODELS[model]))
    batch, length, *more = words.split()
    options = ("--volume", f"{SCRIPT}:/workspace/peak.py:ro", "--volume", f"{tmp_path}:/workspace/model:ro")
    sizes = ("--per_device_train_batch_size", batch, "--max_seq_length", length)
    command = ("peak.py", "--model_name_or_path", "/workspace/model", *sizes, *more)

    explained = run(image, "--explain=json", *command, options=(*options, "--memory", "600m"))
    trained = run(image, *command, options=options, seconds=400)

    assert (explained.code, trained.code) == (0, 0)
    said, took = json.loads(explained.out), json.loads(trained.out.splitlines()[-1])
    assert said["memory"]["rank"] == pytest.approx(took["peak"], rel=NEAR)
    assert said["memory"]["limit"] == 600 << 20
    assert any("killed for want of memory" in note for note in said["notes"])
