"""README.md and docs/: every command is run by a test or has a reason, links lead somewhere, words are plain."""

from __future__ import annotations

import ast
import datetime
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from entrypoint.cluster import launch
from entrypoint.container.image import Stack
from entrypoint.launchers.world import World
from entrypoint.training import job
from entrypoint.tuning import variables
from entrypoint.tuning.scene import Scene
from images import cli, options
from images.plan import catalog
from tests.support.documents import Page, Shown, page, pages
from tests.support.harness import ROOT
from tests.support.machines import Box, look_at

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = "tests/data/documented_commands.toml"
# Words that say nothing to somebody whose English is a second language, or that are not the field's.
PLAIN = re.compile(
    r"(?i)\b(floors?|grounds?|standing|stands|upon|ours|bill|look(s|ing)? for|lying|told|wanted|shop|folders?)\b"
)
# Programs that the pages start in a container, beside the entrypoint's own commands.
PROGRAMS = ("bash", "true")
IMAGE = re.compile(r"IMAGE|multinode:\S+")
SHOWN = [shown for each in pages() for shown in each.shown]


@dataclass(frozen=True)
class Row:
    """Commands that a pattern matches as a whole, and either what runs them or why nothing does.

    `test` is the name of a test function and `proof` a piece of the file that has it; `run` means that this module
    runs them.
    """

    like: str
    test: str | None = None
    proof: str | None = None
    run: bool = False
    reason: str | None = None

    @property
    def is_one_of_three(self) -> bool:
        return [bool(self.test and self.proof), self.run, bool(self.reason)].count(True) == 1


ROWS = [Row(**row) for row in tomllib.loads((ROOT / TABLE).read_text())["command"]]


def row_of(shown: Shown) -> Row | None:
    return next((row for row in ROWS if re.fullmatch(row.like, shown.text, re.DOTALL)), None)


@cache
def functions() -> dict[str, str]:
    """Map the name of every test function to the text of the files that have it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = found.get(node.name, "") + text
    return found


def place(shown: Shown) -> str:
    return f"{shown.place} {shown.text.splitlines()[0][:60]}"


@pytest.mark.parametrize("shown", SHOWN, ids=place)
def test_every_command_is_run_by_a_test_or_has_a_reason(shown: Shown) -> None:
    assert row_of(shown) is not None, f"{shown.place}: add a row for `{shown.text}` to {TABLE}"


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.path)
def test_no_line_of_code_is_left_out(each: Page) -> None:
    read = "\n".join(f"{shown.text}\n{shown.output or ''}" for shown in each.shown)
    lines = [line.removeprefix("$ ").split("  #")[0].strip(" \\") for _, block in each.blocks for line in block]

    assert [line for line in lines if line not in read] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.like)
def test_every_row_is_of_use(row: Row) -> None:
    assert row.is_one_of_three, "a row has test and proof, or run, or a reason"
    assert any(row_of(shown) is row for shown in SHOWN), "no page shows such a command any more"
    if row.test and row.proof:
        text = functions().get(row.test)
        if text is None:
            pytest.fail(f"no test is called {row.test}: correct {TABLE}")
        if row.proof not in text:
            pytest.fail(f"the file of {row.test} does not have {row.proof}: correct {TABLE}")


def builds() -> list[Shown]:
    """List the command lines of build.py."""
    return [shown for shown in SHOWN if shown.text.startswith("python build.py")]


def parse(words: Sequence[str]) -> None:
    """Parse a command line of build.py as it does itself; raise SystemExit or Fault when it cannot."""
    command = words[0] if words and words[0] in options.COMMANDS else None
    options.parser(command).parse_args(words[1:] if command else words)


@pytest.mark.parametrize("shown", builds(), ids=place)
def test_build_py_takes_the_command_line(shown: Shown) -> None:
    words = shlex.split(shown.text)[2:]

    if "--help" in words:
        with pytest.raises(SystemExit) as ended:
            parse(words)
        assert ended.value.code == 0
    else:
        parse(words)


def test_the_pair_that_the_readme_names_first_is_the_default() -> None:
    table = catalog.load()
    first = next(shown for shown in builds() if shown.page == "README.md")

    assert first.text == f"python build.py --torch {table.default_torch} --transformers {table.default_transformers}"


@pytest.mark.parametrize("shown", [each for each in SHOWN if (row := row_of(each)) and row.run], ids=place)
def test_what_is_cheap_does_what_is_shown(shown: Shown, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A build that is refused is refused by `plan` in the same words, which starts no process to find that out."""
    world = cli.World({"XDG_CACHE_HOME": str(tmp_path)}, datetime.date(2026, 11, 20), lambda: 0.0)
    words = shlex.split(shown.text)[2:]

    code = cli.main(words if words[0] in options.COMMANDS else ["plan", *words], world)

    said = capsys.readouterr()
    assert code == (2 if shown.output else 0)
    if shown.output:
        assert said.err.strip() == shown.output.strip()
    else:
        assert said.out


def in_containers() -> Iterator[tuple[Shown, list[str]]]:
    """Yield what runs in a container: the words after the image, or after `multinode`."""
    for shown in SHOWN:
        words = shlex.split(shown.text, comments=True) if "\n" not in shown.text else []
        if words[:2] == ["docker", "run"]:
            yield shown, words[next(n for n, word in enumerate(words) if IMAGE.fullmatch(word)) + 1 :]
        elif "multinode" in words:
            yield shown, words[words.index("multinode") + 1 :]


@pytest.mark.parametrize(("shown", "words"), [pytest.param(*each, id=place(each[0])) for each in in_containers()])
def test_the_entrypoint_knows_the_command(shown: Shown, words: list[str]) -> None:
    _, command = job.read_options(words)

    read = job.read_job(command, {}, lambda name, _: name if name in PROGRAMS else None)

    if read.kind == job.LAUNCH:
        assert job.read_job(launch.read_request(read.words, {}).words, {}, lambda *_: None).trains


@pytest.mark.parametrize("shown", [each for each in SHOWN if "scripts/" in each.text], ids=place)
def test_the_scripts_are_there(shown: Shown) -> None:
    for word in re.findall(r"scripts/[\w./]+", shown.text):
        assert (ROOT / word).is_file()


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.path)
def test_links_lead_somewhere(each: Page) -> None:
    for link in each.links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / each.path).parent / path if path else ROOT / each.path
        assert target.exists(), link
        assert not anchor or anchor in page(str(target.resolve().relative_to(ROOT))).anchors, link


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.path)
def test_the_words_are_plain(each: Page) -> None:
    assert [found.group() for found in PLAIN.finditer(each.prose)] == []


def test_a_newcomer_reads_one_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_option_is_explained_and_nothing_else() -> None:
    parsers = [options.parser(command) for command in (None, *options.COMMANDS)]
    known = {word for each in parsers for action in each._actions for word in action.option_strings}
    rows = [line.split("|")[1] for line in page("docs/build.md").text.splitlines() if line.startswith("| `--")]

    explained = {word for row in rows for word in re.findall(r"`(--[a-z-]+)", row)}

    assert explained == {word for word in known if word.startswith("--")} - {"--help"} | {"--base"}


def test_every_variable_that_the_entrypoint_sets_is_explained() -> None:
    explained = set(re.findall(r"`([A-Z_]+)[`=]", page("docs/run.md").text))
    stack, machine = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/site"), look_at(Box(1, 2))
    scene = Scene(World("alone", ""), machine, stack, True, lambda: None, lambda path: False, {})

    assert {name for name, *_ in variables.list_rows(scene)} - explained == set()


@cache
def messages() -> list[re.Pattern[str]]:
    """List every text of the entrypoint of some length as a pattern in which any value may stand for a field."""
    found = []
    for path in (ROOT / "entrypoint").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [each.value if isinstance(each, ast.Constant) else None for each in parts]
            if isinstance(node, ast.expr) and sum(len(each) for each in texts if isinstance(each, str)) > 18:
                found.append(re.compile(".*".join(re.escape(each) if isinstance(each, str) else "" for each in texts)))
    return found


def shown_messages() -> list[str]:
    """List what the pages say that a container prints: the remedies of doctor, and a table of what may go wrong."""
    outputs = "\n".join(shown.output or "" for shown in SHOWN if "doctor" in shown.text)
    table = page("docs/clusters.md").text.partition("## When a job does not start")[2]
    return [*re.findall(r"try: (.+)", outputs), *re.findall(r"(?m)^\| `(.+?)` \|", table)]


@pytest.mark.parametrize("message", shown_messages())
def test_the_entrypoint_has_the_message(message: str) -> None:
    assert any(pattern.match(message) for pattern in messages())
