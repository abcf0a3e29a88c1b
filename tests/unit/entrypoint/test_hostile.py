"""Hostile values in all variables of all launchers at once: a decision or one refusal, soon, and never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.__main__ import main
from tests.support.environments import ENVIRONMENTS

STACK = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "site": "/site"}
COMMANDS = (["smoke"], ["--nproc", "2", "smoke"], ["python3", "train.py"], ["torchrun", "train.py"], ["sh"])


@pytest.fixture(scope="module")
def root(module_path: Path) -> Path:
    (module_path / "stack.json").write_text(json.dumps({**STACK, "examples": None}))
    (module_path / "torchrun").write_text("#!/bin/sh\n")
    (module_path / "torchrun").chmod(0o755)
    return module_path


def explain(argv: list[str], environ: dict[str, str], root: Path) -> tuple[int, str, str]:
    """Run --explain without a name server: exit code, stdout, stderr."""
    unknown = mock.Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("socket.getaddrinfo", unknown),
    ):
        code = main(["--explain=json", *argv], environ, str(root))
    return code, out.getvalue(), err.getvalue()


@given(ENVIRONMENTS, st.sampled_from(COMMANDS))
def test_there_is_a_decision_or_one_refusal(root: Path, environ: dict[str, str], argv: list[str]) -> None:
    began = time.process_time()
    code, out, err = explain(argv, {"PATH": f"{root}:/usr/bin:/bin", "HOME": str(root), **environ}, root)
    assert time.process_time() - began < 1
    assert code in (0, 1, 2)
    if code == 0:
        assert json.loads(out)["argv"]
    else:
        assert err.startswith("multinode: ") and "\n  try: " in err
