"""`build.py plan --json` of requests that cover versions.toml: one file for each.

That of the default is whole, the others have what differs from it: a new line of plans changes one file. One text is
what people read of a plan.
"""

from __future__ import annotations

import json
from typing import Any

from tests.golden import data
from tests.golden.command import directory, run

# Name of the file -> what is typed behind `plan --json`.
DEFAULT = "default"
PLANS = {
    DEFAULT: "",
    "newest-torch": "--torch 2.15.0",
    "older-line": "--transformers 4.57.6",
    "oldest-transformers": "--transformers 4.30.0",
    "oldest-torch": "--torch 1.10.0 --transformers 4.30.2 --base example.org/python:3.9 --python 3.9",
    "module-of-old-name": "--torch 1.11.0 --base example.org/python:3.10 --python 3.10",
    "find-links": "--torch 1.13.1 --base example.org/python:3.10 --python 3.10",
    "ccl-on-debian": "--torch 2.4.0 --transformers 4.46.0 --base debian",
    "ccl-on-intel": "--torch 2.4.0 --transformers 4.46.0 --base intel",
    "intel-by-itself": "--torch 2.3.0",
    "last-bindings": "--torch 2.7.1 --backend ccl",
    "gloo-instead-of-ccl": "--torch 2.4.0 --transformers 4.46.0 --backend gloo",
    "gloo-after-ccl": "--torch 2.8.0",
    "own-base": "--torch 2.13.0 --base registry.example/team/base:1 --python 3.12",
    "own-layout": "--base oci:layout:tag --python 3.11 --examples none",
    "other-python": "--torch 2.4.0 --transformers 4.46.0 --base example.org/python:3.12 --python 3.12",
    "tasks": "--tasks text-generation,translation",
    "as-of": "--torch 2.13.0 --transformers 5.20.0 --as-of 2026-11-01",
    "yanked": "--transformers 4.57.0",
    "yanked-newer": "--transformers 5.10.0",
    "torch-for-transformers": "--transformers 4.46.0 --backend ccl",
    "arm64": "--platform linux/arm64",
    "arm64-newest-torch": "--platform linux/arm64 --torch 2.15.0",
    "own-packages": "--package peft==0.19.1 --package tensorboard==2.21.0",
    "other-options": "--no-trim --no-bytecode --examples examples.tar.gz --tag example.org/image:2 --wheelhouse wheels "
    "--env KERAS_BACKEND=torch --no-import keras --no-import Absl_Py",
}
FILES = [*(f"{name}.json" for name in PLANS), READ := "read.txt"]


def plan(words: str) -> dict[str, Any]:
    """Return what `build.py plan --json WORDS` prints."""
    printed: dict[str, Any] = json.loads(print_plan(f"--json {words}"))
    return printed


def print_plan(words: str) -> str:
    """Return what `build.py plan WORDS` prints.

    Raises AssertionError when there is no plan.
    """
    with directory({f"project/{number}.py": b"" for number in range(52)}):
        said = run(["plan", *words.split()])
    assert (said.code, said.err) == (0, ""), said
    return said.out


def produce() -> dict[str, str]:
    """Return the golden data: name of the file -> text."""
    usual = plan(PLANS[DEFAULT])
    others = {name: differing(plan(words), usual) for name, words in PLANS.items() if name != DEFAULT}
    texts = {f"{name}.json": data.as_json(said) for name, said in {DEFAULT: usual, **others}.items()}
    read = print_plan("--package peft==0.19.1 --no-trim --workdir project").splitlines()
    return {**texts, READ: "".join(f"{line.rstrip()}\n" for line in read)}  # a table fills its lines with blanks


def differing(one: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return the lines of a plan that the usual one has otherwise; all lines of the usual one are in every plan."""
    assert usual.keys() <= one.keys()
    return {name: value for name, value in one.items() if name not in usual or value != usual[name]}
