"""The process that renews a lease beside a training, which has become another program by exec."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrypoint.runs.lease import make_text, read_lease
from tests.support.harness import ROOT

# Renews ten times a second, so that a test need not wait; the training is `sleep`.
START = """\
import os, sys
from entrypoint.runs import keeper
from entrypoint.runs.lease import create, make_text
keeper.RENEW = 0.1
path = sys.argv[1]
create(path, make_text("mine", "here"))
keeper.start_keeper(path, "mine", "here")
os.execvp("sleep", ["sleep", "300"])
"""
# As in a container: when the first process ends, the kernel kills all others.
CONTAINED = ("unshare", "--map-root-user", "--pid", "--fork")
# The same, but the training is a Python, which has the end of an image's.
TRAINS = """\
import atexit, os, runpy, sys
atexit.register(runpy.run_path, sys.argv[1], run_name="multinode.at_end")
{last}
"""
BECOMES_PYTHON = START.replace("keeper.start_keeper(", "os.environ[keeper.KEEPER] = str(keeper.start_keeper(").replace(
    '"here")\nos.execvp("sleep", ["sleep", "300"])',
    '"here"))\nos.execv(sys.executable, [sys.executable, "-c", sys.argv[2], sys.argv[3]])',
)


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "not within a minute"
        time.sleep(0.02)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lease.json")


@pytest.fixture
def training(path: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a training that holds the lease, and end it whatever happens."""
    with subprocess.Popen([sys.executable, "-c", START, path], cwd=ROOT, stderr=subprocess.PIPE) as process:
        wait(lambda: read_lease(path) is not None)
        yield process
        process.kill()


def test_it_is_renewed_and_released_at_the_end(training: subprocess.Popen[bytes], path: str) -> None:
    first = read_lease(path)
    wait(lambda: read_lease(path) not in (first, None))
    training.send_signal(signal.SIGKILL)
    wait(lambda: read_lease(path) is None)
    _, said = training.communicate(timeout=20)  # nobody holds the stream open
    assert said == b""


@pytest.mark.skipif(subprocess.run([*CONTAINED, "true"]).returncode != 0, reason="no right to make namespaces")
@pytest.mark.parametrize("last", ["pass", "raise SystemExit(3)", "raise KeyboardInterrupt", "os.fork() or os._exit(0)"])
def test_a_training_has_released_it_when_it_ends(path: str, last: str) -> None:
    """A container ends with its first process, and leaves no time for another one."""
    at_end = str(ROOT / "entrypoint/programs/at_end.py")
    words = [*CONTAINED, sys.executable, "-c", BECOMES_PYTHON, path, TRAINS.format(last=last), at_end]

    subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60)

    assert not Path(path).exists()


def test_a_process_of_a_training_releases_nothing(path: str) -> None:
    at_end = str(ROOT / "entrypoint/programs/at_end.py")
    inner = f"import runpy, sys; runpy.run_path({at_end!r}, run_name='multinode.at_end')"
    last = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}]); print(os.path.exists({path!r}))"
    words = [sys.executable, "-c", BECOMES_PYTHON, path, TRAINS.format(last=last), at_end]

    assert subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60).stdout == b"True\n"


def test_a_signal_for_all_processes_of_a_step_does_not_release_it(training: subprocess.Popen[bytes], path: str) -> None:
    """The training may write a checkpoint before it ends."""
    seen = [read_lease(path)]
    wait(lambda: read_lease(path) not in (seen[-1], None))  # from here on it waits for signals
    (keeper,) = Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
    for _ in range(3):
        os.kill(int(keeper), signal.SIGTERM)
        time.sleep(0.2)
        seen.append(read_lease(path))
    assert None not in seen and len({*seen}) == len(seen)
    training.send_signal(signal.SIGTERM)
    wait(lambda: read_lease(path) is None)


def test_it_comes_again_where_it_was_lost(training: subprocess.Popen[bytes], path: str) -> None:
    Path(path).unlink()
    wait(lambda: read_lease(path) is not None)


def lose(process: subprocess.Popen[bytes], path: str) -> None:
    """Take the lease, again where it was renewed in that very moment, until the loss was noticed."""
    stream = process.stderr
    assert stream is not None

    def lost() -> bool:
        held = read_lease(path)
        if held is None or held.owner != "other":
            Path(f"{path}.other").write_text(make_text("other", "there"))
            Path(f"{path}.other").replace(path)
        return bool(select.select([stream], [], [], 0)[0])

    wait(lost)


def test_who_has_lost_it_to_another_says_so_and_ends(training: subprocess.Popen[bytes], path: str) -> None:
    lose(training, path)
    _, said = training.communicate(timeout=60)
    assert b"another job has taken the directory for results, and this training is ended: " in said
    assert b"a job on there\n  try: " in said and training.returncode == -signal.SIGTERM
    held = read_lease(path)
    assert held is not None and held.owner == "other"


def test_a_training_that_goes_on_all_the_same_is_killed(path: str) -> None:
    """One with --enable_jit_checkpoint would write one more checkpoint."""
    deaf = START.replace('os.execvp("sleep", ["sleep", "300"])', "signal.signal(15, signal.SIG_IGN); time.sleep(300)")
    words = [sys.executable, "-c", f"import signal, time\n{deaf}", path]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE) as process:
        wait(lambda: read_lease(path) is not None)
        lose(process, path)
        assert process.wait(timeout=60) == -signal.SIGKILL


def test_a_directory_that_cannot_be_written_for_a_while_does_not_end_it(
    training: subprocess.Popen[bytes], path: str
) -> None:
    stream, directory = training.stderr, Path(path).parent
    assert stream is not None
    first = read_lease(path)
    directory.rename(f"{directory}.away")
    assert select.select([stream], [], [], 30)[0]
    assert b"is not renewed: No such file or directory" in stream.readline()

    Path(f"{directory}.away").rename(directory)

    wait(lambda: read_lease(path) not in (first, None))
