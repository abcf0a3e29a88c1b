"""What was typed: options, then a command of one kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Callable, NamedTuple

from multinode_image.errors import NOT_EXECUTABLE, NOT_FOUND, Refusal
from multinode_image.printing.secrets import hide
from multinode_image.reading import MOST_PROCESSES, whole
from multinode_image.tasks.table import TASKS, Task, find_task, list_scripts

# What Python runs a module by.
MODULE = "-m"
# What a log begins with: which rank of how many this is, and what may be wrong.
PLACE, NOTES = "place", "notes"


class Kind(NamedTuple):
    """What all commands of a kind have in common, for everybody who treats some commands unlike others.

    name: of a command of ours, what is typed; is_script: Python runs it, as one rank of the world or more, and anything
    else runs as it is typed; is_yours: it is the user's, who is told what is wrong, and nothing is changed; prints: it
    says something, and starts nothing; has_words: whether words may follow; says: what its log begins with; instead:
    what to type in place of --nproc.
    """

    name: str
    is_script: bool = False
    is_yours: bool = False
    prints: bool = False
    has_words: bool = True
    says: tuple[str, ...] = (PLACE, NOTES)
    instead: str = ""


SMOKE = Kind("smoke", is_script=True)
TASK = Kind("task", is_script=True)
SCRIPT = Kind("script", is_script=True, is_yours=True)
PLAIN = Kind("plain", is_yours=True)
WORKER = Kind("worker", has_words=False)
LAUNCH = Kind("launch", says=(NOTES,), instead="launch --ppn N smoke")  # its ranks say where they are
SSH = Kind("ssh", says=())  # mpirun starts it, and reads what it prints
PREFETCH = Kind("prefetch", instead="prefetch TASK")
LIST = Kind("tasks", prints=True, has_words=False)
DOCTOR = Kind("doctor", prints=True)
NETWORK = Kind("doctor", is_script=True)  # as ranks
REPORT = Kind("report", prints=True)
STACKS = Kind("stacks", prints=True, has_words=False)
NOTEBOOK = Kind("notebook")
TENSORBOARD = Kind("tensorboard")
ACROSS = "--network"
USAGE = Kind("usage", prints=True)
COMMANDS = {
    kind.name: kind
    for kind in (SMOKE, WORKER, LAUNCH, LIST, SSH, DOCTOR, PREFETCH, REPORT, STACKS, NOTEBOOK, TENSORBOARD)
}
HELP = """usage: [--explain[=json]] [--nproc N] COMMAND [ARGUMENT...]

  smoke [--bf16]            a short training, offline, to see that all ranks work together
  TASK [ARGUMENT...]        an example of transformers, such as qa, glue or mlm; `tasks` lists them
  SCRIPT.py [ARGUMENT...]   your own script, by as many processes as the launcher's variables say
  -m MODULE [ARGUMENT...]   your own module, likewise
  prefetch TASK [ARG...]    bring what a task downloads into the cache, for pods without a network
  doctor [--json]           what decides speed and correctness here, and the remedy for what is wrong
  doctor --network          by several ranks: how fast the network between them is, and what it costs a training
  report [DIRECTORY...]     a page with the curves of trainings, from where their results are, on stdout
  report --price P --network MB/S
                            what 1, 2, 4 and 8 nodes would take and cost, after a first run and `doctor --network`
  tensorboard [ARG...]      TensorBoard of the results, on port 6006, where the image has it
  notebook [ARG...]         JupyterLab on port 8888, behind a token that it prints, where the image has it
  stacks                    where each rank of this container is, by docker exec or kubectl exec
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

    kind: Kind
    name: str
    words: list[str]

    @property
    def line(self) -> list[str]:
        """Return all its words."""
        return [self.name, *self.words]

    @property
    def script(self) -> tuple[str, list[str]]:
        """Return the file of a script and its arguments; a module is looked for in this directory, as Python does."""
        if self.name != MODULE:
            return self.name, self.words
        path = self.words[0].replace(".", os.sep)
        return next(filter(os.path.isfile, (f"{path}.py", f"{path}/__main__.py")), self.words[0]), self.words[1:]

    @property
    def task(self) -> Task | None:
        """Return the task; None for any other command."""
        return find_task(self.name) if self.kind == TASK else None

    @property
    def trains(self) -> bool:
        """Return whether it runs on as many processes as the world has."""
        return self.kind.is_script and not self.helps and (self.task is None or self.task.trains)

    @property
    def helps(self) -> bool:
        """Return whether a script of the image prints its arguments only; one of the user's may mean anything by it."""
        return self.kind.is_script and not self.kind.is_yours and not HELPS.isdisjoint(self.words)


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
    if name == "--help":
        return Command(USAGE, name, rest)
    if name in COMMANDS:
        return read_image_command(COMMANDS[name], rest)
    if name in TASKS:
        return Command(TASK, name, rest)
    if name == MODULE or name.endswith(".py"):
        check_script(name, rest)
        return Command(SCRIPT, name, rest)
    if find(name, environ) is None:
        if name in list_scripts(examples):
            return Command(TASK, name, rest)
        raise explain_word(name)
    return Command(PLAIN, name, rest)


def read_image_command(kind: Kind, words: list[str]) -> Command:
    """Return a command of ours; all share one help. `launch` and `ssh` have another command behind their words."""
    options = [] if kind in (SMOKE, NOTEBOOK, TENSORBOARD) else words if kind == PREFETCH else words[:1]
    if not HELPS.isdisjoint(options):
        return Command(USAGE, kind.name, words)
    if words and not kind.has_words:
        raise Refusal(f"{kind.name} takes no arguments", hide(words)[0], kind.name)
    return Command(NETWORK if kind == DOCTOR and words == [ACROSS] else kind, kind.name, words)


def check_script(name: str, rest: list[str]) -> None:
    """Raise Refusal for a script that is not mounted, or in a directory that this user may not search, and for a -m."""
    if name == MODULE and not rest:
        raise Refusal("-m names no module", name, "-m MODULE [ARGUMENT...], such as -m mine.train")
    if name == MODULE or os.path.isfile(name):
        return
    shown = hide([name])[0]
    mount = f"docker run -v $PWD/{os.path.basename(shown)}:{os.path.join('/workspace', shown)}:ro"
    remedy = f"mount it in every container, where uid {os.getuid()} may read it: {mount}; or COPY it into an image"
    raise Refusal("there is no such script in this container", shown, remedy)


def explain_word(name: str) -> Refusal:
    """Return why a word that begins a command line is no command."""
    shown = hide([name])[0]
    if "/" in name and os.path.exists(name):
        return Refusal("the program cannot be executed", shown, f"chmod +x {shown}", NOT_EXECUTABLE)
    return Refusal("neither a task nor a program", shown, suggest(name), NOT_FOUND)


def suggest(name: str) -> str:
    """Return the remedy for an unknown name: the nearest task, or where tasks are listed."""
    import difflib  # only a mistake pays for it

    near = difflib.get_close_matches(name, [*TASKS, *COMMANDS], n=1)
    return f"{near[0]}, or `tasks` for all of them" if near else "`tasks` lists them all"
