"""The ranks of a typed torchrun, planned in its own process once it has read its options (hooks/ends/agents.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from multinode_image.decide import Plan
from multinode_image.facts import Facts, drop_inherited, snapshot
from multinode_image.machine.files import which
from multinode_image.processes import heed_sigterm
from multinode_image.settings import LOGS
from multinode_image.situation import Situation, detect_situation
from multinode_image.start import begin_beside, list_known, prepare_start
from multinode_image.tasks.arguments import PYTHON
from multinode_image.tasks.command import PLAIN, Command
from multinode_image.tuning.handover import NO_PYTHON, RANK_PROGRAM
from multinode_image.world.model import TORCHRUN
from multinode_image.world.starters import Start
from multinode_image.world.table import find_launcher
from multinode_image.world.torchrun import PREFIX, check_meeting, read_count

# The directory with stack.json, beside lib/, which this package is in.
ROOT = str(Path(__file__).parents[4])


class TorchrunConfig(NamedTuple):
    """What a torchrun has read.

    described: its options, as the variables that torchrun has for them; program, words: what each rank is to run.
    """

    described: Mapping[str, str]
    program: str
    words: list[str]


class Ranks(NamedTuple):
    """What the ranks of a node get.

    program, words: what they are started by; local_size: how many they are; options: those of torchrun that change, as
    the variables that it has for them.
    """

    environ: dict[str, str]
    program: str
    words: list[str]
    local_size: int
    options: dict[str, str]


def plan_ranks(config: TorchrunConfig, environ: Mapping[str, str], root: str = ROOT) -> Ranks:
    """Return what the ranks get, after the nodes' meeting place has been waited for; print the line of this start.

    Raise Refusal for ranks that would not meet, or that would train apart from others.
    """
    heed_sigterm()
    situation, facts = place_ranks(config, environ, root)
    plan = prepare_start(situation, facts)
    begin_beside(plan)
    return hand_on(config, plan, environ)


def place_ranks(config: TorchrunConfig, environ: Mapping[str, str], root: str) -> tuple[Situation, Facts]:
    """Return the situation of what each rank runs, and the facts of this start.

    Its variables of torchrun are what torchrun has read.
    """
    facts = drop_inherited(snapshot(environ, root))
    launcher = find_launcher(facts.environ)
    others = {name: value for name, value in facts.environ.items() if not name.startswith(PREFIX)}
    facts = replace(facts, environ={**others, **config.described})
    check_meeting(config.described)
    start = Start(TORCHRUN, read_count(config.described), config.described)
    python = which(PYTHON, facts.environ)
    is_ours = python is not None and identify_python(python) == identify_python(config.program)
    command = Command(PLAIN, PYTHON if is_ours else config.program, config.words)
    return detect_situation(command, facts, launcher, start=start), facts


def identify_python(path: str) -> tuple[str, str]:
    """Return the file of a Python, and the virtual environment that its path is in, empty for none.

    Those of one base have the same file, and packages of their own (docs.python.org, library/site, pyvenv.cfg).
    """
    place = os.path.dirname(os.path.abspath(path))
    marks = (os.path.join(directory, "pyvenv.cfg") for directory in (place, os.path.dirname(place)))
    return os.path.realpath(path), next((os.path.realpath(mark) for mark in marks if os.path.isfile(mark)), "")


def hand_on(config: TorchrunConfig, plan: Plan, environ: Mapping[str, str]) -> Ranks:
    """Return what the plan gives to the ranks; variables of torchrun itself stay as they were."""
    prepared = {**plan.prepared.environ, **list_known(plan)}
    kept = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    others = {name: value for name, value in prepared.items() if not name.startswith(PREFIX)}
    options = {
        name: value
        for name, value in prepared.items()
        if name.startswith(PREFIX) and config.described.get(name) != value
    }
    program, words = config.program, config.words
    if plan.situation.command.name == PYTHON and "PYTHON_EXEC" in prepared:
        program = RANK_PROGRAM
    elif prepared.get(LOGS):
        program, words = RANK_PROGRAM, [NO_PYTHON, program, *words]
    return Ranks({**others, **kept}, program, words, plan.world.local_size or 1, options)
