"""Hostile values in all variables of all launchers at once: a decision or one refusal, soon, and never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.__main__ import main
from tests.support.environments import CHANGED, ENVIRONMENTS
from tests.support.starts import Container, kernel

COMMANDS = (
    ["smoke"], ["--nproc", "2", "smoke"], ["python3", "train.py"], ["torchrun", "train.py"], ["sh"], ["qa"],
    ["accelerate", "launch", "train.py"], ["mpirun", "-n", "2", "python3", "train.py"],
)  # fmt: skip
# These would write keys and start programs.
EXPLAINED = (*COMMANDS, ["launch", "smoke"], ["worker"])
MODES = {"--explain=json": EXPLAINED, "--explain": EXPLAINED, "": COMMANDS}
HALF_GOOD = st.booleans().flatmap(lambda is_good: CHANGED if is_good else ENVIRONMENTS)
FEWEST = 3  # decisions among the ten examples of a mode, or more; of ten there are five to eight
HEADS = (
    "launcher", "world", "master", "processors", "NUMA nodes", "backend", "bf16", "quota", "gradients", "set",
    "kept", "note", "command",
)  # fmt: skip
SECRET = "hunter2"
# Every way in which a secret is typed: in flags, variables, addresses and headers, alone and in a line of shell.
PLANTED = (
    f"--hub_token {SECRET}", f"--hub-token={SECRET}", f"HF_TOKEN={SECRET}", f"https://u:{SECRET}@h/x",
    f"--dataset_name https://u:{SECRET}@h:1", f"-H 'Authorization: Bearer {SECRET}'", f"-H 'X-Api-Key: {SECRET}'",
    f"'cd /x; export A=b WANDB_API_KEY={SECRET}; python3 x.py'", f"'python3 x.py --hub_token {SECRET} --bf16'",
    f"""'curl -sH "Authorization: Bearer {SECRET}" https://h/x'""", f"'git clone https://u:{SECRET}@h/x && ls a/b'",
    f"""'x --password "a {SECRET}" --seed 1'""", f"'pip install --index-url=https://{SECRET}:@h/simple x'",
)  # fmt: skip
BEFORE = ("", "smoke", "sh -c", "qa", "doctor", "launch --hosts a", "train.py", "--nproc", "torchrun x.py", "ssh host")


@pytest.fixture(scope="module")
def root(module_path: Path) -> Path:
    for backend in ("gloo", "ccl"):
        (module_path / backend).mkdir()
        Container(module_path / backend).furnish(backend=backend, examples=None)
    return module_path


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Have a machine and no network, let no program be started, and no name be waited for."""
    unknown = mock.Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    with kernel(), contextlib.ExitStack() as stack:
        for name, value in (
            ("socket.getaddrinfo", unknown),
            ("os.execvpe", mock.Mock(side_effect=SystemExit(0))),
            ("subprocess.run", mock.Mock(return_value=mock.Mock(returncode=0, stdout=b"", stderr=b""))),
            ("subprocess.Popen", mock.Mock(side_effect=SystemExit(0))),
            ("multinode_image.world.master.can_resolve", lambda name: True),
            ("multinode_image.world.master.try_port", lambda port: None),
            ("multinode_image.mpi.launch.wait_for_hosts", lambda hosts, *_: [None] * len(hosts)),
        ):
            stack.enter_context(mock.patch(name, value))
        yield


def run(argv: list[str], environ: Mapping[str, str], root: Path, backend: str = "gloo") -> tuple[int, str, str]:
    """Run the entrypoint up to exec: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    settled = {"PATH": f"{root / backend}:/usr/bin:/bin", "HOME": str(root / backend)}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), apart():
        try:
            code = main(argv, {**environ, **settled}, str(root / backend))
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("mode", MODES)
def test_there_is_a_decision_or_one_refusal(root: Path, mode: str) -> None:
    codes: list[int] = []

    @given(HALF_GOOD, st.sampled_from(MODES[mode]), st.sampled_from(["gloo", "ccl"]))
    def start(environ: dict[str, str], command: list[str], backend: str) -> None:
        code, out, err = run([*filter(None, [mode]), *command], environ, root, backend)
        assert SECRET not in out + err
        assert code in (0, 2, 138) and "Traceback" not in err
        assert_one_refusal(err) if code else assert_a_decision(mode, out, err)
        codes.append(code)

    start()
    assert codes.count(0) >= FEWEST and any(codes)


def assert_a_decision(mode: str, out: str, err: str) -> None:
    """Check that only what is known is printed: rows of a decision, or of the summary before a start."""
    if mode == "--explain":
        assert out and all(line.startswith(HEADS) for line in out.splitlines())
    elif mode:
        assert json.loads(out)["argv"]
    else:
        assert all(line.startswith("multinode: ") for line in err.splitlines())


def assert_one_refusal(err: str) -> None:
    """Check the three parts, below the rows of a start that came so far: fact, value, and what to do."""
    *before, first, second = err.splitlines()
    assert all(line.startswith("multinode: ") for line in before)
    fact, colon, value = first.removeprefix("multinode: ").partition(": ")
    assert first.startswith("multinode: ") and fact and colon and value
    assert second.startswith("  try: ") and len(second) > len("  try: ")


WORDS = st.lists(
    st.sampled_from([
        "--explain", "--explain=json", "--explain=", "--nproc", "--nproc=2", "2", "0", "-1", "99999999", "--", "-",
        "-h", "--help", "", " ", "smoke", "qa", "summarization", "generation", "tasks", "doctor", "worker", "launch",
        "--hosts", "--hosts=a,b", "-n", "a", "ssh", "sh", "-c", "/etc", "/etc/passwd", "nosuch", "train.py", "torchrun",
        "--nnodes", "--nproc-per-node", "auto", "python3", "-m", "torch.distributed.run", "-um", "accelerate", "--cpu",
        "--num_processes", "mpirun", "--bf16", "--output_dir", "args.json", "\n", "\udcff", "a" * 5000, "--json",
    ])
    | st.text(st.characters(blacklist_characters="\0"), max_size=6),
    max_size=7,
)  # fmt: skip


@given(WORDS)
def test_any_command_line_is_a_decision_or_one_refusal(root: Path, words: list[str]) -> None:
    code, out, err = run(["--explain", *words], {}, root)
    assert code in (0, 1, 2, 126, 127) and "Traceback" not in err
    if code and not err.startswith("usage:"):
        assert_one_refusal(err)
    elif not code and not err and not out.startswith(("{", "smoke ", "usage: ")):  # JSON, the list of tasks
        assert all(line.startswith(HEADS) for line in out.splitlines())


@pytest.mark.parametrize("before", BEFORE)
def test_no_secret_of_a_command_line_is_printed(root: Path, before: str) -> None:
    for planted in PLANTED:
        for mode in ("--explain=json", "--explain"):
            _, out, err = run([mode, *before.split(), *shlex.split(planted)], {}, root)
            assert SECRET not in out + err, planted
