"""`stacks`: where each rank of this container is, by its own words (hooks/groups/waits.py).

Nothing is traced and no signal is sent: a rank has a file in memory, named after its process and a pipe of it. What
asks opens both by /proc, which whoever has started the rank may, and writes into the pipe.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.printing.streams import print_output

# As in hooks/groups/waits.py.
ANSWER = re.compile(r"memfd:multinode-stacks-(\d+)-(\d+)\b")
DONE = b"\n.\n"
SECONDS, PAUSE = 5.0, 0.05  # in which a rank answers, and between two looks
PROC = "/proc"
NO_ANSWER = "it is stopped, or a call outside of Python does not return"


class Door(NamedTuple):
    """A rank that can be asked: its process, its file for an answer, and its pipe."""

    pid: int
    answer: str
    pipe: str


def print_stacks(proc: str = PROC) -> int:
    """Print the stacks of all ranks; return 1 where one has not answered. Raise Refusal where there is none."""
    doors, closed = find_doors(proc)
    if closed and not doors:
        remedy = "the same by their user: docker exec --user UID, as they were started"
        raise Refusal("the processes of this container are another user's", f"uid {os.getuid()}", remedy)
    if not doors:
        remedy = "name a container in which ranks train; one shows its stacks once it has imported torch"
        raise Refusal("no rank runs in this container", f"{proc} has none", remedy, EXIT_OUTSIDE)
    answers = [ask_rank(door) for door in doors]
    for door, answer in zip(doors, answers):
        text = answer or f"process {door.pid} has not answered for {SECONDS:g} s: {NO_ANSWER}"
        print_output(text)
    return 0 if all(answers) else EXIT_OUTSIDE


def find_doors(proc: str) -> tuple[list[Door], bool]:
    """Return the ranks that can be asked, and whether there are processes that may not be looked at."""
    doors, closed = list[Door](), False
    for pid in sorted(map(int, filter(str.isdecimal, os.listdir(proc)))):
        try:
            doors.extend(list_doors(f"{proc}/{pid}/fd", pid))
        except PermissionError:
            closed = True
        except OSError:  # it has just ended
            continue
    return doors, closed


def list_doors(directory: str, pid: int) -> Iterator[Door]:
    """Yield the door of a process, if it has one of its own: what was forked from a rank has that of the rank."""
    for number in os.listdir(directory):
        match = ANSWER.search(os.readlink(f"{directory}/{number}"))
        if match and int(match[1]) == pid:
            yield Door(pid, f"{directory}/{number}", f"{directory}/{match[2]}")


def ask_rank(door: Door) -> str:
    """Return what a rank says of itself; empty where it does not in time."""
    try:
        with open(door.answer, "r+b") as answer, open(door.pipe, "wb", buffering=0) as pipe:
            answer.truncate(0)
            pipe.write(b"?")
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                answer.seek(0)
                text = answer.read()
                if text.endswith(DONE):
                    return text.removesuffix(DONE).decode(errors="replace")
                time.sleep(PAUSE)
    except OSError:  # it has just ended
        return ""
    return ""
