"""A script that says nothing of checkpoints goes on from its last one where it is started again."""

from __future__ import annotations

from pathlib import Path

from tests.image.forked import OPTIONS
from tests.support.harness import run, write_train_script

OUTPUT = "/workspace/output/run"


def test_two_ranks_go_on(image: str, tmp_path: Path) -> None:
    """Rank 0 dies after step 5."""
    write_train_script(tmp_path)
    tmp_path.chmod(0o755)
    options = (*OPTIONS, f"--volume={tmp_path}/train.py:/workspace/train.py:ro")

    done = run(image, "python3", "/ranks/forked.py", "2", "go_on", "5", OUTPUT, "then", "-1", OUTPUT, options=options)

    assert done.code == 0
    for rank in (0, 1):
        assert sorted(line for line in done.out.splitlines() if line.startswith(f"rank {rank}")) == [
            f"rank {rank} begins at step 0", f"rank {rank} begins at step 4", f"rank {rank} ends at step 8",
        ]  # fmt: skip
    assert done.err.count(f"goes on from {OUTPUT}/checkpoint-4") == 1
