"""The parts of pages that are made name all that there is, each has its place, and pages stand as they are made."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from images import options
from manifests.kinds import KINDS
from multinode_image import errors, settings
from multinode_image.tasks.command import OWN
from scripts.pages import messages, parts, reference
from scripts.pages.marks import PART
from scripts.pages.parts import PARTS
from tests.support.documents import pages
from tests.support.harness import ROOT
from tests.support.manifests import list_options

MESSAGES = messages.read_messages()
SAID = json.loads((ROOT / "tests/data/golden/messages/starts.json").read_text())


@cache
def made(name: str) -> str:
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

    assert known - set(re.findall(r"--[a-z-]+", made("options of build.py"))) == set()
    assert all(f"| `{command}` |" in made("commands of build.py") for command in options.COMMANDS)


def list_typed(command: str) -> list[str]:
    return [name for action in options.parser(command)._actions for name in action.option_strings if len(name) > 2][1:]


@pytest.mark.parametrize("kind", KINDS)
def test_options_of_a_manifest(kind: str) -> None:
    text = made("options of manifest.py")

    assert [option for option in list_options(kind) if f"| `{option} " not in text] == []


def test_variables() -> None:
    assert all(f"`MULTINODE_{name}`" in made("variables of users") for name in settings.NAMES)
    assert {"OMP_NUM_THREADS", "LD_PRELOAD", "CCL_WORKER_COUNT", "I_MPI_PIN", "WORLD_SIZE"} <= set(
        re.findall(r"`(\w+)`", made("variables of ranks"))
    )


def test_exit_codes() -> None:
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}

    assert codes <= errors.MEANINGS.keys() and made("exit codes").count("\n") == len(errors.MEANINGS) + 1


def test_commands_of_the_image() -> None:
    assert [name for name in OWN if not re.search(rf"\b{name}\b", made("commands of the image"))] == []


def test_a_message_that_is_printed_is_on_the_page() -> None:
    facts = [*(each.fact for each in MESSAGES), *re.findall(r"(?m)^### (.+)$", reference.REMEDIES.read_text())]
    patterns = [".+".join(map(re.escape, fact.split(messages.VALUE))) for fact in facts]
    any_of_them = re.compile(f"(multinode: )?({'|'.join(patterns)}): ")

    assert [lines[0] for lines in SAID.values() if not any_of_them.match(lines[0])] == []


def test_nearly_every_message_has_its_remedy_on_the_page() -> None:
    """A remedy of another module is read there, and one that a function returns in its body."""
    remedies = {each.fact: each.remedy for each in MESSAGES}
    page = made("other messages")

    assert "TMPDIR" in remedies["the disk is full"] and ".dockerignore" in remedies["a file cannot be in an image"]
    assert remedies["this is not a private ssh key without a passphrase"].startswith("ssh-keygen ")
    assert page.count(reference.UNKNOWN) <= 10, "a remedy is a text, a constant, or what a function of ours returns"


def test_each_message_is_a_heading_or_is_explained_by_one() -> None:
    titles = re.findall(r"(?m)^### (.+)$", f"{reference.REMEDIES.read_text()}\n{made('other messages')}")

    assert [each.fact for each in MESSAGES if not reference.explains(titles, each.fact)] == []
