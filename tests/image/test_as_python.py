"""A script under our start cannot tell the difference from one that Python has started itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import run

FACTS = """\
import json, multiprocessing, pickle, sys, threading
class Here: pass
def work(number): return [__name__, Here.__module__, number]
if __name__ == "__main__":
    found = [__name__, __file__, sys.path, sys.argv, sys.orig_argv[1:], str(__spec__ and __spec__.name)]
    found += [pickle.dumps(Here()).hex(), repr(sys.modules["__main__"]), threading.active_count()]
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found.append(pool.map(work, [1, 2]))
    print(json.dumps(found))
"""
SCRIPTS = {
    "facts": FACTS,
    "raises": "def inner(): raise LookupError('mine')\ninner()",
    "exits": "import sys; sys.exit(7)",
    "says": "import sys; sys.exit('a word')",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "wrong": "import torch.optim.missing",
    "at_exit": "import atexit, sys; atexit.register(print, 'left'); print(len(sys.argv))",
}
# Runs every script by Python and by us, and prints how each has ended.
COMPARE = """
import json, os, subprocess, sys
os.chdir("/scripts")
found = {}
for name in sys.argv[1:]:
    for typed in ([f"{name}.py", "--a", "b c"], ["-m", name, "--a", "b c"]):
        ends = []
        for starter in ("python3", "multinode"):
            done = subprocess.run([starter, *typed], capture_output=True, text=True)
            lines = [line for line in done.stderr.splitlines() if not line.startswith(("multinode: ", "  try: "))]
            ends.append([done.returncode, done.stdout, lines])
        found[" ".join(typed)] = ends
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ends(image: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Start each script twice in one container."""
    place: Path = tmp_path_factory.mktemp("scripts")
    place.chmod(0o755)
    for name, text in {**SCRIPTS, "compare": COMPARE}.items():
        (place / f"{name}.py").write_text(text)
    done = run(
        image, "/scripts/compare.py", *SCRIPTS,
        options=["--volume", f"{place}:/scripts:ro", "--entrypoint", "python3"],
    )  # fmt: skip
    assert done.code == 0, done.text
    codes: dict[str, Any] = json.loads(done.out)
    return codes


@pytest.mark.parametrize("form", ["{}.py --a b c", "-m {} --a b c"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_as_python_lets_it_end(ends: dict[str, Any], name: str, form: str) -> None:
    by_python, by_us = ends[form.format(name)]

    assert by_us == by_python and (by_python[0] or by_python[1])
