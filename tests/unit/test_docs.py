"""README.md and docs/: the commands that the pages show are taken by our programs, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from images import options
from images.plan import catalog, planner
from images.plan.plan import Request
from multinode_image.hooks.job.one_job import REMEDIES
from multinode_image.mpi import launch
from multinode_image.tasks.command import LAUNCH, read_command, read_options
from tests.support.documents import Page, Shown, every_page, page, pages
from tests.support.harness import ROOT
from tests.support.library_wheels import LIBRARIES, PINS, read_pins
from tests.support.sources import read_source
from tests.support.toml import tomllib

# Programs that the pages start in a container, beside the entrypoint's own commands.
PROGRAMS = ("aws", "bash", "chmod", "hf", "ls", "tensorboard", "true")
IMAGE = re.compile(r"IMAGE|multinode:\S+")
TRIED = (ROOT / "tests/cluster/test_libraries.py").read_text()
SHOWN = [shown for document in pages() for shown in document.shown]
# The programs of this repository that the pages start, beside build.py, and what starts each at a landing or a release.
OURS = re.compile(
    r"(?:^|(?<=[ (&|]))(-m (?:benchmarks|(?:scripts|tests)\.\w+)|scripts/\w+(?:\.py)?)(?=\s|$)", re.MULTILINE
)
STARTED = {
    "-m benchmarks": "tests/cluster/test_benchmarks.py",
    "-m scripts.audit": "tests/integration/test_audit.py",
    "-m scripts.example": "tests/cluster/test_example.py",
    "-m scripts.maintainer_scripts": "tests/unit/scripts/test_maintainer_scripts.py",
    "-m scripts.pages": ".github/workflows/update.yml",
    "-m tests.golden": "tests/integration/test_golden.py",
    "scripts/demo": ".github/workflows/test.yml",
    "scripts/manifest.py": "tests/unit/manifests/test_pages.py",
    "scripts/test": ".github/workflows/test.yml",
    "scripts/update_versions.py": ".github/workflows/test.yml",
}


def place(shown: Shown) -> str:
    return f"{shown.place} {shown.text.splitlines()[0][:60]}"


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


def test_each_program_of_the_pages_is_started_by_something() -> None:
    assert {name for shown in SHOWN for name in OURS.findall(shown.text)} == STARTED.keys()
    for name, path in STARTED.items():
        text = (ROOT / path).read_text()
        assert name in text or name.removeprefix("-m ").rpartition(".")[2] in text, f"{path} does not start {name}"


def test_the_pair_that_the_readme_names_first_is_the_default() -> None:
    table = catalog.load()
    first = next(shown for shown in builds() if shown.page == "README.md")

    assert first.text == f"python build.py --torch {table.default_torch} --transformers {table.default_transformers}"


PAIRS = [shown for shown in builds() if "--torch" in shown.text and "--help" not in shown.text]


@pytest.mark.parametrize("shown", PAIRS, ids=place)
def test_a_pair_that_a_page_names_has_nothing_against_it(shown: Shown) -> None:
    """Such as a release that was withdrawn, or one with known security issues."""
    typed = dict(re.findall(r"--(torch|transformers) (\S+)", shown.text))

    notes = planner.make_plan(Request(**typed), catalog.load()).notes

    assert [note for note in notes if re.search("yanked|withdrawn|security", note)] == []


def in_containers() -> Iterator[tuple[Shown, list[str]]]:
    """Yield what runs in a container: the words after the image, or after `multinode`."""
    for shown in SHOWN:
        words = shlex.split(shown.text, comments=True) if "\n" not in shown.text else []
        if words[:2] == ["docker", "run"] and len(words) > 2:
            yield shown, words[next(n for n, word in enumerate(words) if IMAGE.fullmatch(word)) + 1 :]
        elif "multinode" in words:
            yield shown, words[words.index("multinode") + 1 :]


@pytest.mark.parametrize(("shown", "words"), [pytest.param(*pair, id=place(pair[0])) for pair in in_containers()])
def test_the_entrypoint_knows_the_command(
    shown: Shown, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    _, command = read_options(words)

    read = read_command(command, {}, lambda name, _: name if name in PROGRAMS else None)

    if read.kind == LAUNCH:
        assert read_command(launch.read_launch_options(read.words)[1], {}, lambda *_: None).trains


def test_pages_share_no_volume_for_results_of_different_scripts() -> None:
    """The second of two that are typed would be refused: the directory holds another run."""
    runs: dict[str, set[str]] = {}
    for shown, words in in_containers():
        volume = re.search(r" -v ([\w-]+):/workspace/output ", shown.text)
        script = read_options(words)[1]
        if volume and (not script or script[0].endswith(".py")) and "MULTINODE_OUTPUT=" not in shown.text:
            runs.setdefault(volume[1], set()).add(" ".join(script))

    assert {volume: scripts for volume, scripts in runs.items() if len(scripts) > 1} == {}
    assert len(runs) > 3


@pytest.mark.parametrize("document", pages(), ids=lambda document: document.path)
def test_links_lead_somewhere(document: Page) -> None:
    for link in document.links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / document.path).parent / path if path else ROOT / document.path
        assert target.exists(), link
        assert not anchor or anchor in page(str(target.resolve().relative_to(ROOT))).anchors, link


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("# A\n\n## B\n\ntext\n", []),
        ("## A\n\n## B\n\ntext\n", ["## A"]),
        ("### A\n## B\ntext\n", ["### A"]),
        ("# A\n## B\n", ["## B"]),
        ("## A\n<!-- made: tasks -->\n<!-- end -->\n\n## B\n\n<!-- a note\n# C -->\n", ["## A", "## B"]),
        ("## A\n<!-- made: tasks -->\n| task |\n<!-- end -->\n", []),
        ("## A\n\n    # what runs\n\n## B\n\n```\n## C\n```\n", []),
    ],
)
def test_a_heading_has_something_below_it(text: str, empty: list[str]) -> None:
    assert Page("page.md", text).empty_headings == empty


def test_no_page_has_an_empty_heading() -> None:
    assert {document.path: document.empty_headings for document in every_page() if document.empty_headings} == {}


def test_a_page_says_nothing_of_a_site_without_an_address() -> None:
    """A page is whole where it is read."""
    assert [document.path for document in every_page() if re.search(r"(?i)\bthe\s+site\b", document.written)] == []


def test_the_readme_begins_with_what_shows_and_what_tests_everything() -> None:
    readme = page("README.md")
    before = readme.text.partition("\n    ")[0].strip().split("\n\n")

    assert [line.split()[0] for line in readme.blocks[0][1]] == ["scripts/demo", "scripts/test"]
    assert len(before) == 2, "after the title and the first paragraph"


def errors() -> list[str]:
    """List the headings of errors: those that begin with a small letter are the words that are printed."""
    return re.findall(r"(?m)^### ([a-z].*)$", page("docs/troubleshooting.md").written)


def words_of_programs() -> str:
    """Join every string of the three programs, with what stands between the values of a message."""
    files = [path for name in ("multinode_image", "manifests", "images") for path in (ROOT / name).rglob("*.py")]
    return "\n".join(text for path in files for text in read_source(path).strings)


def test_an_error_is_called_by_the_words_that_are_printed() -> None:
    said = words_of_programs()
    # A number, a name of a program or of the system, and what is in brackets are values.
    values = re.compile(r"\d+|\(.*\)|^python |\btorch\b")

    parts = [part.strip() for title in errors() for part in values.split(title)]
    assert [part for part in parts if part not in said] == []


def test_each_library_has_a_snippet_that_is_tried() -> None:
    """tests/cluster/test_libraries.py runs these scripts, alone and on two nodes."""
    scripts = {row: (LIBRARIES / row).read_text() for row in re.findall(r'Row\("(\w+\.py)"', TRIED)}
    snippets = re.findall(r"(?ms)^```python\n(.*?)^```$", (ROOT / "docs/libraries.md").read_text())

    shown = [[row for row, script in scripts.items() if snippet in script] for snippet in snippets]
    assert sorted(row for rows in shown for row in rows) == sorted(scripts)


def test_a_loop_that_is_refused_is_told_what_the_page_adds_to_it() -> None:
    """tests/cluster/test_one_job.py runs the loop of the page on two nodes, before and after."""
    _, loop = page("docs/plain-pytorch.md").blocks[0]
    before, after = ("\n".join(line for line in loop if line[:1] != other) for other in "+-")

    told = set(re.findall(r"\w+(?=\()", REMEDIES["torch"]))

    assert {"init_process_group", "DistributedDataParallel", "DistributedSampler"} <= told
    assert [name for name in told if f"{name}(" not in after] == []
    assert [name for name in told if f"{name}(" in before] == ["DataLoader"] and "shuffle=True" in before


def test_the_versions_of_the_readme_are_those_that_are_tried() -> None:
    table = (ROOT / "README.md").read_text().partition("## Libraries")[2].partition("\n## ")[0]
    named = dict(re.findall(r"([a-z-]+) (\d[\d.]+\d)", table))

    pins = {**read_pins(), **dict(re.findall(r"(torch|transformers|accelerate) ([\d.]+\d)", PINS.read_text()))}
    assert named and named.items() <= pins.items()


def test_what_the_table_of_faults_says_is_printed_by_a_program() -> None:
    """Container tests hold the whole message, which hardly anybody runs who changes a word of it."""
    said = words_of_programs()
    # Values, names of nodes and ranks, where one message goes on with another, and what MPI says itself.
    values = re.compile(
        r"\.\.\.|\brank \d+ on \w+|\b\w*\d[\w.]*|/[\w./-]*|\([^)]*\)|[:;,]|^multinode: "
        r"|\bthe training on\b|\bmaster\.test\b|^Downstream from host "
    )
    rows = tomllib.loads((ROOT / "tests/data/faults.toml").read_text())["fault"]

    parts = {part.strip() for row in rows for text in row["said"] for part in values.split(text)}
    assert sorted(part for part in parts if part not in said) == []
