"""Whether the script of a task can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.needs.script import check_flaws


def test_a_script_that_is_known_to_fail_is_refused(tmp_path: Path) -> None:
    (tmp_path / "accelerate-1.15.0.dist-info").mkdir()
    check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.XLA", [str(tmp_path)])
    with pytest.raises(Refusal, match="known to fail") as caught:
        check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.TPU", [str(tmp_path)])
    assert caught.value.value == "DistributedType.TPU with accelerate 1.15.0" and caught.value.code == 2
    assert "DistributedType.XLA, mounted at /t/run_clm_no_trainer.py" in caught.value.remedy
