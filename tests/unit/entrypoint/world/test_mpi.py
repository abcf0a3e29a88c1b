"""An mpirun that somebody has typed, with options of another MPI than the image's."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.world.mpi import check_mpirun


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--allow-run-as-root", "-np", "2", "python3", "train.py"], "--allow-run-as-root"),
        (["-np", "2", "-bind-to", "none", "-x", "LD_LIBRARY_PATH", "python3", "train.py"], "-x"),
        (["-n", "2", "-ppn", "1", "-genv", "A", "1", "python3", "train.py", "-x", "3"], None),
        (["-n", "2", "./train.py", "-x", "3"], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("hydra", [True, False])
def test_an_option_of_open_mpi_is_named_where_mpirun_is_intels(
    tmp_path: Path, words: list[str], named: str | None, hydra: bool
) -> None:
    for name in ("mpirun", "python3", *(["mpiexec.hydra"] if hydra else [])):
        (tmp_path / name).touch(0o755)
    environ = {"PATH": str(tmp_path)}
    if named is None or not hydra:
        check_mpirun(["mpirun", *words], environ)
        return
    with pytest.raises(Refusal, match="Open MPI") as caught:
        check_mpirun(["mpirun", *words], environ)
    assert caught.value.value == named
