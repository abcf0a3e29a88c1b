"""What was typed: options, then a command of one kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Callable, NamedTuple

from entrypoint.errors import NOT_EXECUTABLE, NOT_FOUND, Refusal
from entrypoint.machine.files import explain_closed, find_closed
from entrypoint.numbers import MOST_PROCESSES, whole
from entrypoint.printing.secrets import hide
from entrypoint.tasks.table import TASKS, find_task, list_scripts

SMOKE, TASK, SCRIPT, PLAIN = "smoke", "task", "script", "plain"
WORKER, LAUNCH, LIST, SSH, DOCTOR, USAGE = "worker", "launch", "tasks", "ssh", "doctor", "usage"
PREFETCH = "prefetch"
OWN = {kind: kind for kind in (SMOKE, WORKER, LAUNCH, LIST, SSH, DOCTOR, PREFETCH)}
HELP = """usage: [--explain[=json]] [--nproc N] COMMAND [ARGUMENT...]

  smoke [--bf16]            a short training, offline, to see that all ranks work together
  TASK [ARGUMENT...]        an example of transformers, such as qa, glue or mlm; `tasks` lists them
  SCRIPT.py [ARGUMENT...]   your own script, by as many processes as the launcher's variables say
  prefetch TASK [ARG...]    bring what a task downloads into the cache, for pods without a network
  doctor [--json]           what decides speed and correctness here, and the remedy for what is wrong
  worker                    wait for ranks from another container, over ssh
  launch --hosts A,B TASK   run a task on several workers, with mpirun
  ssh HOST [COMMAND...]     reach a worker with the mounted key
  anything else             runs unchanged, with the environment prepared"""


# Either of them lets a script print its arguments and end, whatever else is given.
HELPS = frozenset({"-h", "--help"})


class Options(NamedTuple):
    """The options before the command."""

    explain: str | None
    nproc: int | None


class Command(NamedTuple):
    """A kind of command, its name, and what follows the name."""

    kind: str
    name: str
    words: list[str]

    @property
    def trains(self) -> bool:
        """Return whether it runs on as many processes as the world has."""
        return not self.helps and (self.kind in (SMOKE, SCRIPT) or (self.kind == TASK and find_task(self.name).trains))

    @property
    def helps(self) -> bool:
        """Return whether a script of the image prints its arguments only; one of the user's may mean anything by it."""
        return self.kind in (SMOKE, TASK) and not HELPS.isdisjoint(self.words)


def read_options(argv: list[str]) -> tuple[Options, list[str]]:
    """Return the options before the command, and the command; the first word that is no option begins it."""
    explain, nproc, words = None, None, list(argv)
    while words and (words[0].startswith("--") or words[0] == "-h"):
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if name == "--explain" and value in ("", "json"):
            explain = value or "text"
        elif name == "--nproc":
            text = value if equals else (words.pop(0) if words else "")
            nproc = whole(text)
            if not nproc or nproc > MOST_PROCESSES:
                raise Refusal(
                    f"--nproc takes a number of processes up to {MOST_PROCESSES}", repr(hide([text])[0]), "--nproc 2"
                )
        elif name in ("--help", "-h"):
            return Options(None, None), ["--help"]
        else:
            remedy = "--explain, --explain=json, --nproc N, or put it after the command"
            raise Refusal("unknown option before the command", hide([word])[0], remedy)
    return Options(explain, nproc), words


def read_command(
    words: list[str],
    environ: Mapping[str, str],
    find: Callable[[str, Mapping[str, str]], str | None],
    examples: str | None = None,
) -> Command:
    """Return the command as a task, a script or any other program.

    find: returns the path of a program, or None; examples: where the example scripts are, each of which is a task.
    """
    if not words:
        return Command(USAGE, "", [])
    name, *rest = words
    asked = rest if name == PREFETCH else rest[:1] if name in (WORKER, LAUNCH, LIST, SSH, DOCTOR) else []
    if name == "--help" or not HELPS.isdisjoint(asked):
        return Command(USAGE, name, rest)
    if name in (WORKER, LIST) and rest:
        raise Refusal(f"{name} takes no arguments", hide(rest)[0], name)
    if name in OWN or name in TASKS:
        return Command(OWN.get(name, TASK), name, rest)
    if name.endswith(".py"):
        if not os.path.isfile(name):
            raise explain_script(name)
        if not os.access(name, os.R_OK):
            raise explain_closed("this user may not read the script", name)
        return Command(SCRIPT, name, rest)
    if find(name, environ) is None:
        if name in list_scripts(examples):
            return Command(TASK, name, rest)
        raise explain_word(name, rest)
    return Command(PLAIN, name, rest)


def explain_script(name: str) -> Refusal:
    """Return why there is no script of a name: it may be mounted in a directory that this user may not read."""
    closed = find_closed(name)
    if closed is not None:
        return explain_closed("the directory of the script cannot be read", closed)
    shown, path = hide([name])[0], os.path.join("/workspace", hide([name])[0])
    if os.path.isdir(name):
        remedy = f"the right path on the host: docker run -v /HOST/PATH/{os.path.basename(shown)}:{path}:ro"
        return Refusal(
            "what is mounted as the script is a directory, which Docker makes of a missing file", shown, remedy
        )
    mount = f"mount it in every container, docker run -v $PWD/{os.path.basename(shown)}:{path}:ro"
    return Refusal(
        "there is no such script in this container", shown, f"{mount}, or COPY it into an image FROM this one"
    )


def explain_word(name: str, rest: list[str]) -> Refusal:
    """Return why a word that begins a command line is no command; rest: the words after it."""
    shown = hide([name])[0]
    if name == "-m":
        module = " ".join(["-m", *hide(rest)[:1]] if rest else ["-m", "MODULE"])
        remedy = f"torchrun {module} to train with it, python3 {module} for one process"
        return Refusal("a module needs a program that runs it", module, remedy)
    if os.path.isfile(name) and not os.access(name, os.R_OK):
        return explain_closed("this user may not read the program", name)
    if "/" in name and os.path.exists(name):
        remedy = "the path of a program in it" if os.path.isdir(name) else f"chmod +x {name}"
        return Refusal("the program cannot be executed", shown, remedy, NOT_EXECUTABLE)
    return Refusal("neither a task nor a program", shown, suggest(name), NOT_FOUND)


def suggest(name: str) -> str:
    """Return the remedy for an unknown name: the nearest task, or where tasks are listed."""
    import difflib  # only a mistake pays for it

    near = difflib.get_close_matches(name, [*TASKS, *OWN], n=1)
    return f"{near[0]}, or `tasks` for all of them" if near else "`tasks` lists them all"
