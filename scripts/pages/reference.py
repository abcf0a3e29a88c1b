"""The tables of pages that are made from the programs themselves: options, variables, exit codes, messages, modules."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Mapping

from images import options
from images.base import inspect, overlay
from images.deliver import registry
from images.foreign import documents, files, paths, tars
from images.host import limits
from images.layers import trim
from images.lock import index_pages
from images.oci import indexes, manifest
from images.plan import ignored, requirements, user_files
from manifests.kinds import KINDS
from manifests.options import Parser, add_options
from multinode_image import errors, settings, timeouts
from multinode_image.hooks import at_start
from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.printing import secrets, shapes
from multinode_image.tasks.command import HELP
from multinode_image.tasks.table import TASKS
from multinode_image.tuning import variables
from multinode_image.tuning.context import Context, Process
from multinode_image.world.model import TORCHRUN, World
from multinode_image.world.table import LAUNCHERS
from scripts.pages import messages
from scripts.pages.marks import written
from scripts.pages.tables import ROOT, write_table

REMEDIES = ROOT / "docs/troubleshooting.md"
UNKNOWN = "What to type depends on the value. Type what the line `try:` says."
MODULES = ("images", "multinode_image", "manifests")
# A start in which nearly every variable is set: two nodes, oneCCL and Intel MPI, under a quota, with a log.
USUAL = Context(
    World(TORCHRUN, "", nodes=(2, 2), local_size=2, master="node0", port=29500, job="1"),
    Machine(frozenset(range(8)), 8, 4, (frozenset(range(8)),), 4.0, pinned=False),
    {},
    Stack("2.4.0", "4.46.0", "3.11", "ccl", None, "/"),
    Process(is_logged=True, find_interface=lambda: "eth0", has_file=lambda path: path != variables.MPICH),
)


def build_options() -> list[str]:
    """Return the options of build.py, with the commands that have each."""
    return list_options({command: options.parser(command) for command in options.COMMANDS})


def manifest_options() -> list[str]:
    """Return the options of scripts/manifest.py, with the kinds that have each."""
    parsers = {name: Parser(prog=name, add_help=False) for name in KINDS}
    for name, parser in parsers.items():
        add_options(parser, KINDS[name])
    return list_options(parsers)


def list_options(parsers: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Return a row for each option that parsers explain in the same words."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for command, parser in parsers.items():
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction):
                rows.setdefault((spell(action), action.help or ""), {})[command] = action.default
    cells = ((f"`{name}`", write_help(text, of.values()), by(of, parsers)) for (name, text), of in rows.items())
    return write_table(("option", "what it does", "of"), cells)


def write_help(text: str, defaults: Iterable[object]) -> str:
    """Return the help of an option, with the default that it has wherever there is one."""
    values = list(dict.fromkeys(f"`{value}`" for value in defaults))
    return text.replace("%(default)s", values[0] if len(values) == 1 else "another one for each")


def spell(action: argparse.Action) -> str:
    """Return an option with what it takes, as it is typed."""
    takes = "|".join(map(str, action.choices)) if action.choices else action.metavar
    names = ", ".join(action.option_strings)
    return f"{names} {takes}".strip() if takes and action.nargs != 0 else names


def by(chosen: Iterable[str], known: Iterable[str]) -> str:
    """Return the commands that have an option, in the fewest words."""
    names, others = list(chosen), [name for name in known if name not in set(chosen)]
    shown = ", ".join(f"`{name}`" for name in (others if len(others) < len(names) else names))
    return "all" if not others else f"all but {shown}" if len(others) < len(names) else shown


def commands() -> list[str]:
    """Return the commands of build.py."""
    return write_table(("command", "what it does"), ((f"`{name}`", text) for name, text in options.COMMANDS.items()))


def image_commands() -> list[str]:
    """Return what a container can be told to run, as `--help` prints it."""
    return ["```text", *HELP.splitlines(), "```"]


def tasks() -> list[str]:
    """Return the tasks that have defaults."""
    return write_table(("task", "what it trains"), ((f"`{task.name}`", task.about) for task in TASKS.values()))


def typed_variables() -> list[str]:
    """Return the variables that a user sets."""
    rows = ((f"`{settings.OURS}{name}`", text) for name, text in settings.VARIABLES.items())
    return write_table(("variable", "what it does"), rows)


def own_variables() -> list[str]:
    """Return the variables that processes of ours set for each other."""
    texts = (path.read_text() for path in (ROOT / "multinode_image").rglob("*.py"))
    names = {name for text in texts for name in re.findall(rf'"({settings.OURS}[A-Z_]+)"', text)}
    users = {f"{settings.OURS}{name}" for name in settings.VARIABLES}
    return [", ".join(f"`{name}`" for name in sorted(names - users))]


def rank_variables() -> list[str]:
    """Return the variables that are set for ranks, where one has a value in the usual start."""
    place = World(TORCHRUN, "", rank=0, size=2, local_rank=0, local_size=1, master="node0", port=29500)
    rows = [(name, why) for name, _, why in variables.list_rows(USUAL)]
    reasons: dict[str, list[str]] = {}
    for name, why in [*rows, *((variable.name, variable.why) for variable in variables.set_rank_variables(place, {}))]:
        reasons.setdefault(why, []).append(f"`{name}`")
    return write_table(("variable", "why it is set"), ((", ".join(names), why) for why, names in reasons.items()))


def exit_codes() -> list[str]:
    """Return what each exit code says."""
    return write_table(("code", "what it says"), ((str(code), text) for code, text in errors.MEANINGS.items()))


def found_by() -> list[str]:
    """Return what proves each launcher, in the order in which they are looked for."""
    rows = dict.fromkeys((launcher.why, launcher.kind) for launcher in LAUNCHERS)
    return write_table(("found", "taken for"), rows)


def download_limits() -> list[str]:
    """Return how much is read of what comes from outside, how slowly, and to how much it unpacks."""
    rows = ((limit.of, spell_size(limit.most)) for limit in limits.TABLE)
    unpacked = {"a layer of an image": limits.LAYER, "a wheel or a source archive": limits.WHEEL,
                "a part of a Debian package": limits.DEB}  # fmt: skip
    more = ((f"{what}, unpacked", f"{one.times} times its bytes, or {spell_size(one.least)} if that is more")
            for what, one in unpacked.items())  # fmt: skip
    slowest = f"a download of less than {limits.SLOWEST >> 10} KiB a second", f"{limits.WINDOW} seconds"
    silent = "a registry that sends and takes nothing", f"{limits.PATIENCE:.0f} seconds"
    return write_table(("what", "at most"), [*rows, *more, slowest, silent])


def content_limits() -> list[str]:
    """Return how much may be in what others wrote."""
    return write_table(("what", "at most"), (
        ("bytes in a name, and in a path", f"{paths.LONGEST_PART}, {paths.LONGEST:,}"),
        ("directories in a path", str(paths.DEEPEST)),
        ("objects and lists within each other, in JSON", str(documents.DEEPEST)),
        ("values in JSON", f"{documents.MOST:,}"),
        ("tags of a page of a package index in HTML", f"{index_pages.MOST_TAGS:,}"),
        ("layers of an image", str(manifest.MOST_LAYERS)),
        ("indexes within each other", str(indexes.NESTED)),
        ("entries of an archive of an image, or of a bundle", f"{files.MOST:,}"),
        ("the paths of an image's files, and what is read of them", spell_size(overlay.LARGEST)),
        ("a text in a base, such as dpkg's status", spell_size(inspect.LONGEST)),
        ("headers before one entry of a tar", spell_size(tars.LONGEST_HEADER)),
        ("documents that a registry lists for an image, and pages of that list",
         f"{registry.MOST:,}, {registry.MOST_PAGES}"),
        ("parts of such a document", str(registry.MOST_PARTS)),
        ("a requirements file", spell_size(requirements.LONGEST)),
        ("requirements files that name each other", str(requirements.DEEPEST)),
        ("a `.dockerignore`", spell_size(user_files.LONGEST)),
        ("files of your own, and all together", f"{user_files.MOST:,}, {spell_size(user_files.LARGEST)}"),
    ))  # fmt: skip


def waits() -> list[str]:
    """Return how long a start and a training wait for others, in seconds."""
    rows = {
        "the name of rank 0 of a rendezvous, and its answer": timeouts.MASTER,
        "the name of rank 0 of MPI or Slurm": timeouts.NAME,
        "the workers of `launch`": timeouts.HOSTS,
        "any of these in a manifest": timeouts.PODS,
        "an answer of a name server": timeouts.LOOKUP,
        "such an answer where the name of rank 0 is waited for": timeouts.RESOLVER,
        "a job that is just ending in the directory for results": timeouts.DIRECTORY,
        "a checkpoint that another node has written, to be seen": timeouts.SEEN,
        "the end of ranks after a signal to `launch`": timeouts.RANKS_END,
        "what `doctor` starts": timeouts.PROBE,
    }
    return write_table(("what is waited for", "seconds"), ((what, f"{seconds:g}") for what, seconds in rows.items()))


def secret_names() -> list[str]:
    """Return by which words in its name a value is a secret."""
    rows = {
        "anywhere": secrets.ANYWHERE,
        "as a word, or at the end of the last one": secrets.WORD,
        "as the last word": secrets.LAST,
        "not if this is the last word": secrets.ABOUT,
    }
    return write_table(("in a name", "words"), ((place, ", ".join(words)) for place, words in rows.items()))


def secret_forms() -> list[str]:
    """Return which kinds of secrets are known by their form, and what they begin with."""
    rows = ((kind, " ".join(f"`{begin}`" for begin in one.begins)) for kind, one in shapes.TABLE.items())
    return write_table(("kind", "begins with"), rows)


def spell_size(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def left_out() -> list[str]:
    """Return which files of wheels images do not have."""
    return list_patterns("files", trim.TABLE)


def uncompiled() -> list[str]:
    """Return which modules of wheels images have no bytecode of."""
    return list_patterns("modules", trim.UNCOMPILED)


def list_patterns(what: str, table: trim.Table) -> list[str]:
    """Return a row for each pattern over the paths of a wheel."""
    rows = ((f"`{wheel}`", f"`{path}`", why) for wheel, paths in table.items() for path, why in paths.items())
    return write_table(("wheel", what, "why"), rows)


def secret_files() -> list[str]:
    """Return what files of secrets are called."""
    names, samples = (", ".join(f"`{name}`" for name in some) for some in (ignored.NAMES, ignored.SAMPLES))
    return [f"{names}, in letters of either case; but not {samples}."]


def other_messages() -> list[str]:
    """Return the messages that the page of remedies does not explain itself, each as a heading above what to type."""
    explained = re.findall(r"(?m)^### (.+)$", written(REMEDIES.read_text()))
    known = messages.read_messages()
    return [line for message in known if not explains(explained, message.fact) for line in show(message)]


def explains(titles: Iterable[str], fact: str) -> bool:
    """Return whether a heading has the words of a fact, without the values that it may begin and end with."""
    pattern = re.compile(".+".join(map(re.escape, call(fact).split(messages.VALUE))))
    return any(pattern.fullmatch(title) or fact.startswith(f"{title} on {messages.VALUE}") for title in titles)


def show(message: messages.Message) -> list[str]:
    tick = "``" if "`" in message.remedy else "`"
    typed = f"{tick}try: {message.remedy}{tick}" if message.remedy else UNKNOWN
    return [f"### {call(message.fact)}", "", typed, ""]


def call(fact: str) -> str:
    """Return what a message is searched by: a fact without the value that it begins with."""
    return fact.removeprefix(f"{messages.VALUE} ")


def modules() -> list[str]:
    """Return every module with the first sentence of its docstring."""
    return write_table(("module", "what it holds"), (row for program in MODULES for row in describe(program)))


def describe(program: str) -> Iterable[tuple[str, str]]:
    """Yield the modules of a program; one without a docstring, such as the mark of a package, is left out."""
    for path in sorted((ROOT / program).rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) if "rootfs" not in path.parts else None
        if text:
            yield f"`{path.relative_to(ROOT)}`", first_sentence(text)


def hooks() -> list[str]:
    """Return what is done in a training once a module has been imported, in this order."""
    rows = ((f"`{name}`", find_action(action), f"`{action}`") for name, row in at_start.ROWS.items() for action in row)
    return write_table(("once this is imported", "what is done", "by"), rows)


def find_action(action: str) -> str:
    """Return what a function of the hooks does; its docstring may end with which module it gets."""
    module, _, function = action.rpartition(".")
    parsed = ast.parse((ROOT / "multinode_image/hooks" / f"{module.replace('.', '/')}.py").read_text())
    found = next(node for node in parsed.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return first_sentence(ast.get_docstring(found) or "").partition("; module: ")[0].rstrip(".")


def first_sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())
