"""What a run is known by, and what is another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.machine.image import Stack
from multinode_image.results.identity import (
    NO_EFFECT,
    SETTINGS,
    Pair,
    compare_pairs,
    digest_files,
    identify_script,
    identify_task,
)
from multinode_image.results.record import parse_record
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.table import TRAINER, find_task


def known(line: str) -> tuple[Pair, ...]:
    return identify_script(line.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ()),
        ("a.cfg", (("", "a.cfg"),)),
        ("lr=3 lr=4", (("", "lr=3"), ("", "lr=4"))),
        ("--lr 3 a.cfg", (("lr", "3"), ("", "a.cfg"))),
        ("--lr=3 a.cfg", (("lr", "3"), ("", "a.cfg"))),
        ("--data a --data b", (("data", "a"), ("data", "b"))),
        ("--layers 1 2 -x", (("layers", "1"), ("", "2"), ("", "-x"))),
        ("--fp16", (("fp16", "True"),)),
        ("--learning-rate 3", (("learning_rate", "3"),)),
        ("--output_dir /a --logging_steps=3 --report-to none b.cfg", (("", "b.cfg"),)),
        ("--use_cpu a.cfg --disable_tqdm true --push_to_hub lr=3", (("", "a.cfg"), ("", "lr=3"))),
        ("--use_cpu --log_scale 3", (("log_scale", "3"),)),
        *((f"--use_cpu {word} a.cfg", (("", "a.cfg"),)) for word in (
            "true", "1", "yes", "on", "T", "y", "false", "0", "no", "off", "f", "N",
        )),
        ("--password a --api_key=b --hub_token c", ()),
    ],
)  # fmt: skip
def test_every_word_of_a_script_counts_but_what_is_known_to_have_no_effect(line: str, expected: object) -> None:
    assert known(line) == expected


WORDS = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=8).filter(
    lambda word: "*" not in word and not word.endswith(".json")
)


@given(st.lists(WORDS, max_size=6), WORDS)
def test_a_word_that_is_no_flag_is_never_lost(words: list[str], more: str) -> None:
    flags = [word for word in words if not word.startswith("-")]
    values = [f"v{number}" for number in range(3)]
    kept = [value for _, value in identify_script([*flags, "--use_cpu", *values])]
    assert kept[-3:] == values
    assert compare_pairs(identify_script([*flags, "a.cfg"]), identify_script([*flags, "b.cfg"]))


def test_a_file_of_all_arguments_is_read_and_any_other_counts_as_a_word(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"output_dir": "/a", "lr": 0.1, "layers": [1, 2]}')
    assert identify_script([str(file)]) == (("lr", "0.1"), ("layers", "1"), ("", "2"))
    assert identify_script([str(file), "x"]) == (("", str(file)), ("", "x"))
    file.write_text("no json")
    assert identify_script([str(file)]) == (("", str(file)),)


def test_a_file_counts_by_its_content_and_a_large_one_by_its_size(tmp_path: Path) -> None:
    file, large, directory = tmp_path / "a.cfg", tmp_path / "data", tmp_path / "folder"
    directory.mkdir()
    large.write_bytes(b"x" * (SETTINGS + 1))
    words = [f"--config={file}", f"config={large}", str(directory), f"{tmp_path}/none", "\0"]
    identities = []
    for text in ("lr=1", "lr=2"):
        file.write_text(text)
        identities.append(digest_files(identify_script(words)))
    assert identities[0].keys() == identities[1].keys() == {str(file), str(large)}
    assert identities[0][str(file)] != identities[1][str(file)]
    assert identities[0][str(large)] == f"{SETTINGS + 1} bytes"
    assert digest_files(identify_script(["--log_file", str(file)])) == {}  # the run itself writes it
    several = [file.with_name(f"{name}.cfg") for name in "fedcba"]
    for one in several:
        one.touch()
    assert [*digest_files(identify_script([*map(str, several)]))] == sorted(map(str, several))  # on all nodes alike


@pytest.mark.parametrize("words", [[], ["--evaluation_strategy", "steps"], ["--eval_strategy", "steps"], ["--no_cuda"]])
@pytest.mark.parametrize("name", ["ner", "clm"])
def test_a_task_is_the_same_whatever_its_release_calls_the_flags(name: str, words: list[str]) -> None:
    task, versions = find_task(name), ("4.30.0", "4.40.0", "4.45.0", "5.1.0", "5.23.0")
    stacks = [Stack("2.13.0+cpu", version, "3.11", "gloo", None, "") for version in versions]
    identities = [
        identify_task(complete(task, "x.py", words, stack, many=False).arguments, TRAINER) for stack in stacks
    ]
    assert len({*identities}) == 1
    if words[1:]:
        assert ("eval_strategy", "steps") in identities[0]


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        ("--lr 1", "--lr 2", "--lr 1 there, 2 here"),
        ("--lr 1", "", "--lr 1 there, not set here"),
        ("a.cfg", "b.cfg", "the words a.cfg there, b.cfg here"),
        ("lr=1", "", "the words lr=1 there, not set here"),
        ("--data a --data b", "--data b", "--data a b there, b here"),
        ("--config a --lr 1", "--lr 1 --config a", "the same words in another order"),
    ],
)
def test_differences_are_said_as_they_are_typed(there: str, here: str, said: str) -> None:
    assert compare_pairs(known(there), known(here)) == [said]
    assert compare_pairs(known(there), known(there)) == []
    several = compare_pairs(known("--b 1 --d 1 --a 1 --c 1"), known("--b 2 --d 2 --a 2 --c 2"))
    assert several == [f"--{name} 1 there, 2 here" for name in "abcd"]


def test_no_argument_is_named_twice() -> None:
    assert len({*NO_EFFECT}) == len(NO_EFFECT)


def test_a_record_is_read_in_the_words_of_today() -> None:
    """A flag may have been renamed since it was written, by a row of tasks/aliases.py that came later."""
    left = {
        "task": "ner",
        "arguments": [["evaluation_strategy", "epoch"], ["lr", "1"]],
        "resume_from": "",
        "before": {},
    }

    record = parse_record(json.dumps(left))

    assert record is not None
    assert (
        record.arguments == (("eval_strategy", "epoch"), ("lr", "1")) == identify_task(dict(record.arguments), TRAINER)
    )
