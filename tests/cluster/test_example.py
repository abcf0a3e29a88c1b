"""The example of the documentation, as its page says: a real model learns from real text, in two containers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.containers import own_names
from tests.support.documents import page
from tests.support.harness import call

# A model that has learned nothing names the largest section: 15 of 100 texts.
LEAST = 0.55

pytestmark = pytest.mark.slow


def test_two_containers_learn_as_the_page_says(image: str, tmp_path: Path) -> None:
    shown = "\n".join("\n".join(lines) for _, lines in page("docs/example.md").blocks)
    fetch = next(line for line in shown.splitlines() if line.startswith("python -m scripts.example"))
    train = shown[shown.index("docker network create") :]
    tmp_path.chmod(0o755)

    brought = call(["bash", "-euc", fetch.replace(" example ", f" {tmp_path}/example ")], seconds=300)
    with own_names("training", "pod0", "pod1", "results2") as name:
        script = name(train).replace("IMAGE", image).replace("$PWD/example", f"{tmp_path}/example")
        done = call(["bash", "-euc", script], seconds=900)

    assert brought.code == 0, brought.err
    assert done.code == 0, done.err
    assert "trained as one job of 2 ranks" in done.err
    accuracy = re.search(r"^accuracy (0\.\d+) after 1 epoch", done.out, re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) > LEAST, done.out[-500:]
