"""The workflows, and the pipelines for others, start what is here, with options that there are.

Their schemas are checked by scripts/test; tests/integration/test_pipeline.py runs the lines of the pipelines.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import pytest
import yaml

from images import options
from tests.support.harness import ROOT

WORKFLOWS = {path.name: path.read_text() for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
# What a shell or the workflow puts in, each replaced by one value: $(COMMAND), "$NAME", ${{ … }}.
VARIABLES = re.compile(r"\$\{\{.*?\}\}|\$\{[^}]*\}|\$\([^)]*\)|\$\w+")


def lines(start: str) -> list[str]:
    """List the commands of all workflows that begin so."""
    lists = [
        re.findall(rf"(?m)^\s*(?:- )?(?:run: )?(?:sudo (?:--\S+ )*)?({start}.*)$", text) for text in WORKFLOWS.values()
    ]
    return [line for listed in lists for line in listed]


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


# Files that others take, and their texts; a project names our own action by its release.
TAKEN = {name: (ROOT / name).read_text() for name in ("action.yml", "examples/workflow.yml", "examples/gitlab-ci.yml")}
PIPELINE = (ROOT / "scripts/pipeline").read_text()
OURS = "OWNER/multinode@"


@pytest.mark.parametrize("name", [*WORKFLOWS, "action.yml", "examples/workflow.yml"])
def test_actions_are_pinned_by_commit(name: str) -> None:
    used = re.findall(r"(?m)^\s*(?:- )?uses: (.*)$", {**WORKFLOWS, **TAKEN}[name])
    used = [action for action in used if not action.startswith(OURS)]

    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} +# v[\d.]+", action)] == []


def test_there_are_such_lines() -> None:
    assert len(lines(r"python build\.py")) > 3
    scripts = {line.split()[0] for line in lines("scripts/")}
    assert scripts == {"scripts/demo", "scripts/smoke", "scripts/test", "scripts/update_versions.py"}


def find_action_steps() -> list[dict[str, Any]]:
    """List the steps of our action."""
    steps: list[dict[str, Any]] = yaml.safe_load(TAKEN["action.yml"])["runs"]["steps"]
    return steps


def test_no_value_of_others_is_read_as_shell() -> None:
    assert [step["run"] for step in find_action_steps() if "${{" in step.get("run", "")] == []


def test_a_project_names_inputs_that_the_action_has() -> None:
    inputs = yaml.safe_load(TAKEN["action.yml"])["inputs"]
    jobs = yaml.safe_load(TAKEN["examples/workflow.yml"])["jobs"].values()
    uses = [step for job in jobs for step in job["steps"] if step.get("uses", "").startswith(OURS)]

    assert len(uses) == 2 and all(step["with"].keys() <= inputs.keys() for step in uses)


def test_the_action_hands_each_input_on() -> None:
    described = yaml.safe_load(TAKEN["action.yml"])
    said = yaml.dump(described["runs"])

    assert [name for name in described["inputs"] if f"inputs.{name}" not in said] == []


def test_what_a_pipeline_sets_is_read() -> None:
    job = yaml.safe_load(TAKEN["examples/gitlab-ci.yml"])["multinode-image"]
    given = {name for step in find_action_steps() for name in step.get("env", ()) if name != "ACTION"}
    given |= {name for name in job["variables"] if not name.startswith(("MULTINODE_", "XDG_"))}

    assert {name for name in given if not re.search(rf"\$\{{?{name}\b", PIPELINE)} == set()


def test_a_pipeline_types_options_of_build_py() -> None:
    typed = set(re.findall(r"(?:^option|\}\" (?:lock|--no-load)|\s)\s*(--[a-z-]+)", PIPELINE, re.MULTILINE))
    known = {name for command in (None, "lock") for name in options.parser(command)._option_string_actions}

    assert {"--lock", "--script", "--push"} <= typed
    others = {"--authfile", "--username", "--password-stdin", "--quiet", "--disable-pip-version-check"}
    assert typed - others <= known
