"""The image as a directory, run by Charliecloud: read-only, as the user who calls, without root or an engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.documents import page
from tests.support.harness import Done, call
from tests.support.programs import needs

pytestmark = [
    pytest.mark.slow,
    needs("ch-run"),
]
# As the user of these tests; what root types is somebody else's here.
SOMEBODY = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups") if os.geteuid() == 0 else ()
TASK = "multinode qa --bf16"


def shown() -> tuple[str, str]:
    """Return what the page types where Docker is, and what it types where only Charliecloud is."""
    blocks = ("\n".join(lines) for _, lines in page("docs/slurm.md").blocks)
    block = next(text for text in blocks if "docker export" in text and "ch-run" in text)
    before, typed = block.split("ch-run", 1)
    return before, f"ch-run{typed}"


@pytest.fixture(scope="module")
def unpacked(image: str, module_path: Path) -> Path:
    """Unpack an image as the page says; the directories for results and downloads are anybody's."""
    copy = f"{module_path.name}-copy"
    script = shown()[0].replace("IMAGE", image).replace("--name copy", f"--name {copy}")
    script = script.replace("export copy", f"export {copy}").replace("rm copy", f"rm {copy}")
    try:
        assert call(["bash", "-euc", f"cd {module_path}\n{script}\nchmod 777 results cache"]).code == 0
    finally:
        call(["docker", "rm", "--force", copy])
    return module_path


def run(unpacked: Path, command: str) -> Done:
    """Type the page's ch-run with another command in its place."""
    typed = shown()[1]
    assert TASK in typed
    line = ["bash", "-c", f"cd {unpacked}; {typed.replace(TASK, command)}"]
    return call([*SOMEBODY, *line], env={"PATH": os.environ["PATH"], "USER": "somebody"})


@pytest.mark.parametrize("ranks", [1, 2])
def test_smoke_trains_in_an_unpacked_image(unpacked: Path, ranks: int) -> None:
    done = run(unpacked, f"multinode --nproc {ranks} smoke --bf16")

    assert done.code == 0
    assert f"smoke: passed: world_size={ranks} " in done.text


def test_a_task_leaves_its_results_with_the_caller(unpacked: Path) -> None:
    done = run(unpacked, TASK)

    assert done.code == 0
    assert "/workspace/output/qa" in done.text


def test_doctor_and_a_directory_of_results_that_the_user_may_write(unpacked: Path) -> None:
    done = run(unpacked, "bash -c 'multinode doctor; touch /workspace/output/from-here'")

    assert "a group of one rank has formed" in done.out
    assert "cannot be written" not in done.out
    assert (unpacked / "results" / "from-here").exists()
