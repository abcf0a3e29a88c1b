"""The workflows start what is here, with options that there are; their schema is checked by scripts/test."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from images import options
from tests.support.harness import ROOT

WORKFLOWS = {path.name: path.read_text() for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
# What a shell or the workflow puts in, each replaced by one value: $(COMMAND), "$NAME", ${{ … }}.
VARIABLES = re.compile(r"\$\{\{.*?\}\}|\$\{[^}]*\}|\$\([^)]*\)|\$\w+")


def lines(start: str) -> list[str]:
    """List the commands of all workflows that begin so."""
    found = [
        re.findall(rf"(?m)^\s*(?:- )?(?:run: )?(?:sudo (?:--\S+ )*)?({start}.*)$", text) for text in WORKFLOWS.values()
    ]
    return [line for each in found for line in each]


@pytest.mark.parametrize("line", lines(r"python build\.py"))
def test_build_py_takes_the_options(line: str) -> None:
    # ${NAME:+--option "$NAME"} is an option that is there or not.
    text = re.sub(r'\$\{\w+:\+(--\w+) "\$\w+"\}', r"\1 1.0", line)
    words = shlex.split(VARIABLES.sub("x", text.partition(">")[0]))[2:]
    command = words[0] if words[0] in options.COMMANDS else None

    options.parser(command).parse_args(words[1:] if command else words)


@pytest.mark.parametrize("line", lines(r"scripts/"))
def test_the_scripts_can_be_started(line: str) -> None:
    assert os.access(ROOT / line.split()[0], os.X_OK)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit(name: str) -> None:
    used = re.findall(r"(?m)^\s*(?:- )?uses: (.*)$", WORKFLOWS[name])

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} +# v[\d.]+", each)] == []


def test_there_are_such_lines() -> None:
    assert len(lines(r"python build\.py")) > 3
    scripts = {line.split()[0] for line in lines("scripts/")}
    assert scripts == {"scripts/demo", "scripts/smoke", "scripts/test", "scripts/update_versions.py"}
