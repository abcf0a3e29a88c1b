"""The page on an image of one's own, as it says: built by one command, trained alone and by two nodes, and verified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import registry
from tests.support.documents import page
from tests.support.harness import EXAMPLES, IMAGES, call, remove_images
from tests.support.library_wheels import LIBRARIES

pytestmark = [pytest.mark.slow, registry.needed]

SHARED = re.compile(r"^from tiny import .*\n", re.MULTILINE)
NAMES = re.compile(r"\b(training|pod0|pod1|results)\b(?!/)")
PLACE = "registry.example/team/mine:1"


def two_nodes(command: str) -> str:
    """Return the README's commands for two containers that train, with another image and command."""
    nodes = next(lines for _, lines in page("README.md").blocks if lines[0].startswith("docker network create"))
    return "\n".join(nodes).replace("IMAGE smoke --bf16", command)


@pytest.fixture
def local_registry(tmp_path: Path) -> Iterator[str]:
    """Run a registry that anybody may push to."""
    with registry.running(tmp_path / "registry") as host:
        yield host


def test_one_command_makes_an_image_that_trains_in_two_containers_and_is_verified(
    engine: None, local_registry: str, tmp_path: Path
) -> None:
    """The script is that of the page on libraries, with all that it imports in one file; two nodes are the README's."""
    shown = "\n".join("\n".join(lines) for _, lines in page("docs/image.md").blocks).partition("FROM ")[0]
    shown = f"{shown}\n{two_nodes('multinode:mine train.py')}"
    script = SHARED.sub("", (LIBRARIES / "trl_sft.py").read_text())
    (tmp_path / "train.py").write_text((LIBRARIES / "tiny.py").read_text() + script)
    ending, tag = f"-own-{tmp_path.name}", f"{IMAGES}:mine"
    typed = NAMES.sub(rf"\1{ending}", shown).replace("multinode:mine", tag)
    typed = typed.replace(PLACE, f"{local_registry}/team/mine:1").replace(
        "--script train.py", f"--script {tmp_path}/train.py"
    )
    typed = typed.replace("build.py --package", f"build.py --examples {EXAMPLES} --package")

    try:
        done = call(["bash", "-euc", typed], seconds=900)
    finally:
        call(["docker", "rm", "--force", f"pod0{ending}", f"pod1{ending}"])
        call(["docker", "network", "rm", f"training{ending}"])
        call(["docker", "volume", "rm", f"results{ending}-mine"])
        remove_images([tag])

    assert done.code == 0, done.err
    assert "your packages" in done.out and "your files" in done.out
    assert "multinode: alone" in done.err and "trained as one job of 2 ranks" in done.err
    assert f"verified       docker://{local_registry}/team/mine:1" in done.out
    assert "equal to the one of this build" in done.out
