"""The parts of pages that are made from the sources, and the site."""

from __future__ import annotations

import ast
import dataclasses
import datetime
import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from images import options
from images.base.base import BaseImage
from images.host.errors import UserFault
from images.oci.manifest import Descriptor, Manifest
from images.plan import catalog
from manifests.kinds import KINDS
from multinode_image import errors, settings
from multinode_image.tasks.command import COMMANDS
from scripts.pages import built, messages, parts, reference, tables
from scripts.pages.built import Built
from scripts.pages.marks import PART, written
from scripts.pages.parts import PARTS
from scripts.pages.tables import Fault, read_cases, read_faults
from tests.support.documents import pages
from tests.support.faults import Broken
from tests.support.harness import ROOT, Done
from tests.support.locks import lock
from tests.support.manifests import list_options

CODES = "<!-- made: exit codes -->\n"
END = "<!-- end -->\n"


def test_a_part_is_made_anew_and_the_rest_stays() -> None:
    text = parts.fill(f"before\n{CODES}old\n{END}after `{CODES.strip()}`\n")

    assert text.startswith(f"before\n{CODES}| code |") and text.endswith(f" |\n{END}after `{CODES.strip()}`\n")
    assert parts.fill(text) == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{CODES}{END}", ["exit codes"]),
        (f"{CODES}a\n\n{END}b\n<!-- made: tasks -->\n{END}", ["exit codes", "tasks"]),
        (f"{CODES}without an end\n<!-- made: tasks -->\n{END}", ["tasks"]),
        (CODES, []),
        (f"  {CODES}{END}", []),
        (f"<!-- other -->\n{END}", []),
    ],
)
def test_a_part_has_both_marks_at_the_beginning_of_lines(text: str, names: list[str]) -> None:
    assert [part["name"] for part in PART.finditer(text)] == names


def test_a_part_that_nobody_makes_is_refused() -> None:
    with pytest.raises(UserFault) as caught:
        parts.fill(f"<!-- made: nothing -->\n{END}")

    assert caught.value.value == "nothing" and "exit codes" in caught.value.remedy


def test_what_is_made_does_not_count_and_lines_keep_their_numbers() -> None:
    text = written(f"one\n{CODES}| code |\nmade words\n{END}two `{CODES.strip()}`\n")

    assert text == f"one\n\n\n\n\ntwo `{CODES.strip()}`\n"


MESSAGES = messages.read_messages()
SAID = json.loads((ROOT / "tests/data/golden/messages/starts.json").read_text())


@cache
def make_part(name: str) -> str:
    return "\n".join(PARTS[name]())


def test_each_part_has_one_place() -> None:
    assert sorted(part["name"] for page in pages() for part in PART.finditer(page.text)) == sorted(PARTS)


def test_pages_stand_as_they_are_made() -> None:
    stale = [path.name for path, text in parts.make().items() if not path.exists() or path.read_text() != text]

    assert stale == [], f"{parts.COMMAND} writes them anew"


def test_files_that_stand_otherwise_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "same.md").write_text("as it is")
    (tmp_path / "old.md").write_text("old")
    names = {"same.md": "as it is", "old.md": "new", "picture.svg": "new"}
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "make", lambda: {tmp_path / name: text for name, text in names.items()})

    assert parts.write() == ["old.md", "picture.svg"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == names


def test_options_and_commands_of_build_py() -> None:
    known = {option for command in options.COMMANDS for option in list_typed(command)}

    assert known - set(re.findall(r"--[a-z-]+", make_part("options of build.py"))) == set()
    assert all(f"| `{command}` |" in make_part("commands of build.py") for command in options.COMMANDS)


def list_typed(command: str) -> list[str]:
    return [name for action in options.parser(command)._actions for name in action.option_strings if len(name) > 2][1:]


@pytest.mark.parametrize("kind", KINDS)
def test_options_of_a_manifest(kind: str) -> None:
    text = make_part("options of manifest.py")

    assert [option for option in list_options(kind) if f"| `{option} " not in text] == []


def test_variables() -> None:
    assert all(f"`MULTINODE_{name}`" in make_part("variables of users") for name in settings.NAMES)
    assert {"OMP_NUM_THREADS", "LD_PRELOAD", "CCL_WORKER_COUNT", "I_MPI_PIN", "WORLD_SIZE"} <= set(
        re.findall(r"`(\w+)`", make_part("variables of ranks"))
    )


def test_exit_codes() -> None:
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}

    assert codes <= errors.MEANINGS.keys() and make_part("exit codes").count("\n") == len(errors.MEANINGS) + 1


def test_commands_of_the_image() -> None:
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", make_part("commands of the image"))] == []


def test_a_message_that_is_printed_is_on_the_page() -> None:
    facts = [*(message.fact for message in MESSAGES), *re.findall(r"(?m)^### (.+)$", reference.REMEDIES.read_text())]
    patterns = [".+".join(map(re.escape, fact.split(messages.VALUE))) for fact in facts]
    any_of_them = re.compile(f"(multinode: )?({'|'.join(patterns)}): ")

    assert [lines[0] for lines in SAID.values() if not any_of_them.match(lines[0])] == []


def test_nearly_every_message_has_its_remedy_on_the_page() -> None:
    """A remedy of another module is read there, and one that a function returns in its body."""
    remedies = {message.fact: message.remedy for message in MESSAGES}
    page = make_part("other messages")

    assert "TMPDIR" in remedies["the disk is full"] and ".dockerignore" in remedies["a file cannot be in an image"]
    assert remedies["this is not a private ssh key without a passphrase"].startswith("ssh-keygen ")
    assert page.count(reference.UNKNOWN) <= 10, "a remedy is a text, a constant, or what a function of ours returns"


def test_each_message_is_a_heading_or_is_explained_by_one() -> None:
    titles = re.findall(r"(?m)^### (.+)$", f"{reference.REMEDIES.read_text()}\n{make_part('other messages')}")

    assert [message.fact for message in MESSAGES if not reference.explains(titles, message.fact)] == []


def test_what_the_tests_train_stands_alone_and_in_bold() -> None:
    bold = [line for line in tables.versions() if line.startswith("| **")]

    assert [line.split("|")[1].strip() for line in bold] == [f"**{one}**" for one in catalog.load().tested_torch]


CHECKED = sorted({case["checked"] for case in read_cases() if "checked" in case})


def test_a_form_is_a_world_or_a_refusal() -> None:
    assert [case["form"] for case in read_cases() if bool(case.get("world")) == bool(case.get("refused"))] == []


def ids(mark: pytest.Mark) -> Iterator[str]:
    """List the names that a `parametrize` gives its rows, as far as they are written down."""
    given = mark.kwargs.get("ids")
    for place, row in enumerate(mark.args[1]):
        value = row.values[0] if isinstance(row, ParameterSet) else row
        if isinstance(row, ParameterSet) and row.id is not None:
            yield str(row.id)
        elif given is not None:
            yield given(value) if callable(given) else given[place]
        else:
            yield str(value)


@pytest.mark.parametrize("name", CHECKED)
def test_a_form_that_was_run_names_a_test(name: str) -> None:
    file, _, test = name.removesuffix("]").partition("::")
    function, _, row = test.partition("[")
    module = importlib.import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")
    marks = [mark for mark in getattr(getattr(module, function), "pytestmark", []) if mark.name == "parametrize"]

    assert not row or row in [identifier for mark in marks for identifier in ids(mark)]


TEST = "cluster/test_pods.py::test_a_rank_dies"
ROW = Fault(
    TEST, "a rank dies", ("rank 1 on ... was killed | by signal 9",), {"the pod": 137, "the others": 1}, 30, "wait"
)
DONE = [Done(137, "", ""), Done(1, "", "x\nrank 1 on node1 was killed | by signal 9; y\n")]


def breaking_tests() -> list[str]:
    """List the tests in containers that take the fixture `broken`, as the rows name them."""
    files = [path for place in ("cluster", "image") for path in (ROOT / "tests" / place).glob("test_*.py")]
    return [
        f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}"
        for path in files for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        and "broken" in [argument.arg for argument in node.args.args]
    ]  # fmt: skip


def test_every_test_that_breaks_something_has_a_row_and_every_row_such_a_test() -> None:
    assert sorted(row.test for row in read_faults()) == sorted(breaking_tests())


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([DONE[0], Done(0, "", DONE[1].err)], id="another exit code"),
        pytest.param([DONE[1]], id="one end too few"),
        pytest.param([DONE[0], Done(1, "rank 1 on node1\n was killed | by signal 9", "")], id="in two lines"),
    ],
)
def test_ends_other_than_those_of_the_row_fail(ends: list[Done]) -> None:
    broken = Broken(ROW)

    with pytest.raises(AssertionError):
        broken.ended(*ends)
    assert not broken.checked


DAY = datetime.date(2026, 11, 26)
BUILT = {"size": 7, "digest": f"sha256:{'a' * 64}", "tags": ["multinode:a"]}
ONE = built.of(lock(), BUILT, DAY, "c" * 40)
OTHER = f"sha256:{'b' * 64}"
LATER = datetime.date(2026, 12, 1)


def test_a_base_that_was_made_here_is_named_by_its_suite() -> None:
    pulled = BaseImage(Manifest(OTHER, Descriptor("", OTHER, 1), ()), (), "intel/a:1")

    assert (ONE.base, ONE.size, ONE.digest, ONE.examples) == ("bookworm", 7, BUILT["digest"], False)
    assert built.of(lock(base="intel", base_image=pulled), BUILT, DAY, "").base == "intel"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(dataclasses.replace(ONE, day=LATER), [ONE], id="the same image again"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, day=LATER), ["new"], id="of newer packages"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, torch="2.9.0"), [ONE, "new"], id="of an older torch"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, torch="2.14.0"), ["new", ONE], id="of a newer torch"),
        pytest.param(dataclasses.replace(ONE, digest=OTHER, base="trixie"), ["new", ONE], id="on another base"),
    ],
)
def test_an_image_takes_the_place_of_an_older_one_of_the_same(new: Built, expected: list[object]) -> None:
    assert built.add([ONE], new) == [new if row == "new" else row for row in expected]
    older = dataclasses.replace(ONE, digest=f"sha256:{'d' * 64}", torch="2.8.0")
    assert built.add([older, ONE], new) == [*([older, ONE] if expected == [ONE] else built.add([ONE], new)),
                                            *([] if expected == [ONE] else [older])]  # fmt: skip


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "images.json"
    place.write_text(built.text([ONE]))

    assert built.read(place) == [ONE]


def rows_on(day: datetime.date | None) -> dict[str, str]:
    return dict(line.strip("| ").split(" | ") for line in tables.ends(day)[2:])


def test_a_line_is_over_when_the_next_one_is_there() -> None:
    assert rows_on(None)["torch 2.13"] == "2.14.0 is newer, since 2026-09-02"


@pytest.mark.parametrize(
    ("day", "bookworm"),
    [
        ("2026-07-11", "mended by its security team until 2026-07-11, then LTS until 2028-06-30"),
        ("2026-07-12", "mended by LTS until 2028-06-30, no more by its security team (until 2026-07-11)"),
        ("2028-06-30", "mended by LTS until 2028-06-30, no more by its security team (until 2026-07-11)"),
        ("2028-07-01", "mended by nobody since 2028-06-30"),
    ],
)
def test_who_mends_a_suite_is_said_as_of_a_day(day: str, bookworm: str) -> None:
    rows = rows_on(datetime.date.fromisoformat(day))

    assert rows["Debian bookworm, of 2023-06-10"] == bookworm
    assert (
        rows["Debian trixie, of 2025-08-09"]
        == "mended by its security team until 2028-08-09, then LTS until 2030-06-30"
    )
