"""doctor in a container that is well, and in one with everything wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.harness import HARDENED, Done, run

SITE = "/usr/local/lib/python3.11/dist-packages"


def faults(done: Done) -> dict[str, str]:
    """Map what is wrong to its remedy."""
    rows = json.loads(done.out)["checks"]
    assert all(row["remedy"] for row in rows if row["state"] != "ok")
    return {row["name"]: f"{row['value']} {row['remedy']}" for row in rows if row["state"] == "wrong"}


def test_a_healthy_container_has_nothing_wrong(image: str) -> None:
    done = run(image, "doctor", options=(*HARDENED, "--tmpfs", "/workspace/output:mode=1777", "--shm-size", "256m"))

    assert done.code == 0
    assert "wrong" not in done.out
    assert "gloo: a group of one rank has formed" in done.out
    assert re.search(r"(?m) packages +\d+ as the image was built$", done.out), "nobody has added anything"


def test_everything_that_is_wrong_is_named_at_once(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    options = (
        "--volume", f"{tmp_path}:/workspace/output:ro",
        "--volume", f"{tmp_path}:{SITE}/h11-9.9.dist-info:ro",
        "--volume", f"{tmp_path}/torchvision.py:{SITE}/torchvision.py:ro",
        "--shm-size", "1m",
        "--env", "OMP_NUM_THREADS=4096",
        "--env", "GLOO_SOCKET_IFNAME=ib9",
        "--env", "WORLD_SIZE=2",
    )  # fmt: skip

    done = run(image, "doctor", "--json", options=options)

    assert done.code == 1
    named = faults(done)
    said = {
        "directories": "docker run --user 0:0", "packages": "9.9 instead of",
        "transformers": "torchvision cannot be imported: RuntimeError: operator torchvision::nms does not exist",
        "shm": "--shm-size", "threads": "unset OMP_NUM_THREADS",
        "launcher": "WORLD_SIZE=2",
    }  # fmt: skip
    assert named.keys() == said.keys()
    assert "GLOO_SOCKET_IFNAME=ib9 is left out" in done.out
    assert {name for name, part in said.items() if part not in named[name]} == set()
