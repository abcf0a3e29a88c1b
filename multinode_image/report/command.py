"""What `report` was asked for: the trainings of which directories, and where the page goes."""

from __future__ import annotations

import os
import sys

from multinode_image.errors import Refusal
from multinode_image.printing.secrets import hide
from multinode_image.printing.streams import print_output, write_output
from multinode_image.report.cost import NETWORK, PRICE, read_cost_options, write_costs
from multinode_image.report.page import LIGHT, write_page
from multinode_image.report.trainings import find_trainings, read_training

# As many as there are colours that can be told from each other.
MOST = len(LIGHT)
USAGE = "docker run --rm -v results:/workspace/output IMAGE report > report.html"


def write_report(words: list[str], usual: str) -> int:
    """Write a page on stdout with the trainings in these directories, or in the usual one; return the exit code.

    A directory may be named by its path, or by its name in the usual one.

    Raise Refusal for a directory without a training, for too many of them, and where stdout is a terminal.
    """
    if any(word.partition("=")[0] in (PRICE, NETWORK) for word in words):
        return print_costs(words, usual)
    if flag := next((word for word in words if word.startswith("-")), None):
        raise Refusal("report has no such option", hide([flag])[0], "report, or report DIRECTORY...")
    if sys.stdout is not None and sys.stdout.isatty():
        raise Refusal("report writes a page of HTML, and this is a terminal", "stdout", USAGE)
    searched = [
        (directory, find_trainings(directory))
        for directory in (find_directory(word, usual) for word in words or [usual])
    ]
    empty = next((directory for directory, trainings in searched if not trainings), None)
    if empty is not None:
        remedy = "the directory for results of a training by the Trainer: report /workspace/output/TASK"
        raise Refusal("no training has left anything there", empty, remedy)
    places = list(dict.fromkeys(place for _, trainings in searched for place in trainings))
    if len(places) > MOST and len(words) > 1:
        raise Refusal("a page has room for fewer trainings", f"{len(places)} of {MOST}", "name some of them")
    notes = [f"the newest {MOST} of {len(places)} trainings"] if len(places) > MOST else []
    write_output(write_page([read_training(place) for place in places[:MOST]], notes))
    return 0


def print_costs(words: list[str], usual: str) -> int:
    """Print how long a training would take on several nodes, and what that would cost; return the exit code."""
    options, directories = read_cost_options(words)
    if len(directories) > 1:
        raise Refusal("this is about one training", " ".join(hide(directories)), "name one of them")
    directory = find_directory(directories[0], usual) if directories else usual
    trainings = find_trainings(directory)
    if not trainings:
        raise Refusal("no training has left anything there", directory, "a first run: IMAGE train.py, for a minute")
    print_output(write_costs(read_training(trainings[0]), options))
    return 0


def find_directory(word: str, usual: str) -> str:
    """Return the path of a directory that is named by it, or by its name in the usual one."""
    inside = os.path.join(usual, word)
    return os.path.normpath(word if os.path.isdir(word) or not os.path.isdir(inside) else inside)
