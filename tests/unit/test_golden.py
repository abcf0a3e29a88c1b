"""Plans, refusals and the decisions of starts are what they were; tests/golden says how they are made and renewed."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from tests.golden import __main__ as golden
from tests.golden import base, data, debian, explain, messages, options, plans, printed, programs, published, refusals


@pytest.fixture(scope="module")
def decided() -> dict[str, str]:
    """Decide every case once."""
    return explain.produce()


@pytest.fixture(scope="module")
def decisions(decided: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what each case was, and what it is."""
    return explain.read(data.recorded("explain")), explain.read(decided)


@pytest.mark.parametrize("name", [case.name for case in explain.cases()])
def test_a_decision_is_what_it_was(name: str, decisions: tuple[dict[str, str], dict[str, str]]) -> None:
    known, now = decisions

    different = data.compare(known.get(name, ""), now[name], name)
    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize("name", [explain.COMMON, explain.TEXT])
def test_what_starts_have_in_common_and_say_is_what_it_was(name: str, decided: dict[str, str]) -> None:
    different = data.difference("explain", name, decided[name])

    assert not different, f"{different}\n{data.REMEDY}"


def test_the_words_of_a_refused_start_are_what_they_were() -> None:
    assert messages.produce() == data.recorded("messages"), data.REMEDY


def test_commands_print_what_they_did() -> None:
    assert printed.produce() == data.recorded("printed"), data.REMEDY


@pytest.fixture(scope="module")
def planned() -> dict[str, str]:
    """Plan every request once."""
    return plans.produce()


@pytest.mark.parametrize("name", plans.FILES)
def test_a_plan_is_what_it_was(name: str, planned: dict[str, str]) -> None:
    different = data.difference("plan", name, planned[name])

    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize(
    ("group", "typed"), [(name, command) for name, all_ in refusals.REFUSALS.items() for command in all_]
)
def test_a_refusal_says_what_it_said(group: str, typed: str) -> None:
    known = json.loads(data.recorded("refusals")[f"{group}.json"])

    assert refusals.refused(typed) == known[f"build.py {typed}"], data.REMEDY


@pytest.mark.parametrize("name", ["provenance.json", "sbom.json", "attached.json"])
def test_what_is_published_beside_an_image_is_what_it_was(name: str) -> None:
    """Its digest is attached to every image: `verify` refuses those of before, as soon as it changes."""
    different = data.difference("published", name, published.produce()[name])

    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize("name", ["podman.json", "uv.json"])
def test_what_other_programs_are_given_is_what_it_was(name: str) -> None:
    different = data.difference("programs", name, programs.produce()[name])

    assert not different, f"{different}\n{data.REMEDY}"


def test_the_options_of_both_command_lines_are_what_they_were() -> None:
    assert options.produce() == data.recorded("options"), data.REMEDY


def test_what_is_known_of_a_base_is_what_it_was() -> None:
    assert base.produce() == data.recorded("bases"), data.REMEDY


@pytest.mark.parametrize("suite", debian.SYSTEMS)
def test_a_root_file_system_is_what_it_was(suite: str) -> None:
    different = data.difference("debian", f"{suite}.json", debian.produce(suite)[f"{suite}.json"])

    assert not different, f"{different}\n{data.REMEDY}"


def test_no_golden_data_are_left_over() -> None:
    assert explain.read(data.recorded("explain")).keys() == {case.name for case in explain.cases()}
    assert data.recorded("explain").keys() == {*explain.FILES.values(), explain.COMMON, explain.TEXT}
    assert data.recorded("plan").keys() == {*plans.FILES}
    for name, typed in refusals.REFUSALS.items():
        known = json.loads(data.recorded("refusals")[f"{name}.json"])
        assert known.keys() == {f"build.py {words}" for words in typed}


def test_the_command_writes_what_the_tests_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: data.recorded(name) for name in ("messages", "manifests")}
    monkeypatch.setattr(data, "PLACE", tmp_path)

    assert golden.main(["messages", "manifests"]) == 0

    assert {name: data.recorded(name) for name in known} == known
    assert golden.main(["starts"]) == 2
    assert all(hasattr(import_module(module), "produce") for module in golden.MODULES.values())
