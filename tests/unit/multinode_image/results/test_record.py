"""Where a run goes on: what rank 0 finds in a directory, and which run may have it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.files import read_text
from multinode_image.machine.image import Stack
from multinode_image.results.checkpoints import CheckpointFilter, find_last
from multinode_image.results.plan import find_results, plan_run
from multinode_image.results.record import (
    RESUME,
    Record,
    Run,
    begin,
    check_directory,
    list_differences,
    load_record,
    parse_record,
    read_run,
    write_run,
)
from multinode_image.tasks.arguments import Program, complete
from multinode_image.tasks.command import SCRIPT, TASK, Command
from multinode_image.tasks.table import find_task
from multinode_image.world.model import ALONE, MPI, TORCHRUN, World
from tests.support.runs import checkpoint
from tests.support.starts import make_facts

STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
ONE = World(ALONE, "", local_size=1, size=1)
NODES = World(TORCHRUN, "", (2, 2), 0, 1)

Variables = Mapping[str, str]
NONE: Variables = {}


@dataclass
class Start:
    """Starts a task into one directory, each time as another job, and takes what its rank 0 takes."""

    directory: Path
    said: list[str] = field(default_factory=list)
    jobs: Iterator[int] = field(default_factory=count)

    def plan(
        self, *words: str, job: Command | None = None, stack: Stack = STACK, variables: Variables = NONE
    ) -> tuple[Program, Run | None]:
        """Return what is planned."""
        job = job or Command(TASK, "qa", [*words, "--output_dir", str(self.directory)])
        completed = complete(find_task(job.name), "x.py", job.words, stack, many=False)
        return plan_run(job, completed, make_facts(variables, stack, files=read_text))

    def run(self, *words: str, **options: Any) -> Run:
        """Return the run that is planned."""
        return self.plan(*words, **options)[1] or pytest.fail("no run")

    def task(self, *words: str, began: str = "", **options: Any) -> str | None:
        """Start a task and return the checkpoint that it goes on from; began: of which job this is another start."""
        run = self.run(*words, **options)
        check_directory(run, ONE)
        begin(run, [began or str(next(self.jobs))], self.said.append)
        record = load_record(str(self.directory))
        assert record is not None
        step, faults = find_last(str(self.directory), record.filter)
        self.said += faults
        return run.resume_from or None if step is None else f"{self.directory}/checkpoint-{step}"

    def save(self, step: int) -> str:
        """Leave a checkpoint."""
        return str(checkpoint(self.directory, step))


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path / "output")


@pytest.mark.parametrize(
    ("line", "goes_on"),
    [
        ("clm --do_train --output_dir /out", True),
        ("clm-no-trainer --output_dir /out", False),
        ("speech-recognition-ctc --do_train --output_dir /out", True),
        ("qa --do_train False", None),
        ("qa --do_eval", None),
        ("qa --output_dir s3://bucket", None),
        ("generation", None),
    ],
)
def test_what_trains_has_a_run_which_its_ranks_read(start: Start, line: str, goes_on: bool | None) -> None:
    name, *words = line.split()
    _, run = start.plan(job=Command(TASK, name, words))
    assert (run.goes_on if run else None) is goes_on
    assert run is None or read_run(write_run(run)) == run


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"directory": "/a"}', "[" * 5000, '{"arguments": 1}'])
def test_no_other_text_is_a_run(text: str) -> None:
    assert read_run(text) is None


def test_the_same_command_goes_on_from_its_last_whole_checkpoint(start: Start) -> None:
    assert start.task("--seed", "1") is None
    first, second = start.save(4), start.save(8)
    assert start.task("--seed", "1") == second
    (Path(second) / "optimizer.pt").write_bytes(b"")
    assert start.task("--seed", "1", "--logging_steps", "1", "--save_total_limit", "2") == first
    assert start.said[-1] == "checkpoint-8 is damaged (optimizer.pt is empty)"


@pytest.mark.parametrize("words", [["--seed", "2"], [], ["--seed", "1", "--lr", "1"]])
def test_another_run_is_refused_as_long_as_there_is_something(start: Start, words: list[str]) -> None:
    start.task("--seed", "1")
    assert start.task(*words) is None  # nothing was written yet
    start.task("--seed", "1")
    place = start.save(4)
    with pytest.raises(Refusal, match="holds another run") as error:
        start.task(*words)
    assert place in error.value.remedy


@pytest.mark.parametrize(("steps", "last"), [((4, 8), "checkpoint-8"), ((), "a.bin")])
def test_what_another_run_has_left_is_named(start: Start, steps: tuple[int, ...], last: str) -> None:
    start.task("--seed", "1")
    for step in steps:
        start.save(step)
    for name in ("b.bin", "a.bin"):
        (start.directory / name).touch()
    with pytest.raises(Refusal) as refused:
        start.task("--seed", "2")
    assert refused.value.value == f"{start.directory} with {last}: --seed 1 there, 2 here"


def test_another_content_of_a_file_is_another_run(start: Start) -> None:
    config = start.directory.parent / "a.cfg"
    config.write_text("lr=1")
    start.task("--config", str(config))
    place = start.save(4)
    assert start.task("--config", str(config)) == place
    config.write_text("lr=2")
    with pytest.raises(Refusal, match=f"another content of {config}"):
        start.task("--config", str(config))


def leave_run(start: Start, task: str, arguments: Mapping[str, str]) -> None:
    """Leave what a start in another image has left."""
    fields = {
        "task": task, "arguments": [*arguments.items()], "before": {}, "resume_from": "",
        "files": {}, "users": [os.getuid()], "written": 0, "began": [],
    }  # fmt: skip
    (start.directory / "_multinode").mkdir(parents=True)
    record = start.directory / "_multinode/run.json"
    record.write_text(json.dumps(fields, indent=1, sort_keys=True))


NER = {
    "model_name_or_path": "google-bert/bert-base-uncased",
    "dataset_name": "lhoestq/conll2003",
    "do_train": "True",
    "do_eval": "True",
}


@pytest.mark.parametrize("version", ["5.1.0", "5.23.0"])
@pytest.mark.parametrize("flag", [{"group_by_length": "True"}, {"train_sampling_strategy": "group_by_length"}])
def test_a_task_of_an_older_release_goes_on_in_a_newer_image(start: Start, version: str, flag: dict[str, str]) -> None:
    leave_run(start, "ner", {**NER, **flag})
    place = start.save(4)
    job = Command(TASK, "ner", ["--output_dir", str(start.directory)])
    for stack in (STACK._replace(transformers=version), STACK):
        assert start.task(job=job, stack=stack) == place
    other = Command(TASK, "ner", ["--seed", "1", *job.words])
    with pytest.raises(Refusal, match="--seed not set there, 1 here"):
        check_directory(start.run(job=other), ONE)


@pytest.mark.parametrize(("words", "variables"), [(["--overwrite_output_dir"], {}), ([], {RESUME: "no"})])
def test_what_a_run_writes_again_is_its_own_whatever_is_in_it(
    start: Start, words: list[str], variables: Variables
) -> None:
    start.task()
    place = Path(start.save(4))
    os.utime(place / "trainer_state.json", (1, 1))
    start.task(*words, variables=variables)
    assert start.task() is None
    shutil.rmtree(place)
    start.save(4)
    assert start.task() == str(place)


def test_who_goes_on_as_another_user_is_noted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start.task()
    record, uid = start.directory / "_multinode/run.json", os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 7)
    start.task()
    assert json.loads(record.read_text())["users"] == [uid, uid + 7]


def test_who_has_written_a_record_has_run_it(start: Start) -> None:
    """Also where an older release has named nobody."""
    start.task()
    record = start.directory / "_multinode/run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "users": [os.getuid() + 7]}))

    known = load_record(str(start.directory))

    assert known is not None and known.users == (os.getuid(), os.getuid() + 7) and known.written == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"written": "1e309"}, {"users": "[1e309]"}, {"users": "[1e300]"}, {"users": '["0"]'}, {"written": "9" * 5000},
        {"written": "NaN"}, {"users": "{}", "before": "[" * 5000},
    ],
)  # fmt: skip
def test_a_record_whose_numbers_are_none_is_no_record(fields: dict[str, str]) -> None:
    known = {"task": '"x"', "arguments": "[]", "resume_from": '""', "before": "{}", "users": "[7]", "written": "1"}
    text, other = (json.dumps({**known, **more}) for more in (fields, {}))
    for name, value in {**known, **fields}.items():
        text, other = text.replace(json.dumps(value), value), other.replace(json.dumps(known[name]), known[name])

    assert parse_record(text) is None
    assert parse_record(other) == Record("x", (), users=(7,), written=1)


def test_another_program_is_refused(start: Start) -> None:
    start.task()
    start.save(4)
    for name in ("clm", "qa-no-trainer"):
        with pytest.raises(Refusal, match=f"qa there, {name} here"):
            start.task(job=Command(TASK, name, ["--output_dir", str(start.directory)]))


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"task": 1}', "x" * 99])
def test_checkpoints_without_a_record_are_refused(start: Start, text: str | None) -> None:
    start.save(4)
    if text is not None:
        (start.directory / "_multinode").mkdir()
        (start.directory / "_multinode/run.json").write_text(text)
    with pytest.raises(Refusal, match="no record"):
        start.task()
    assert "lock" not in {path.name for path in start.directory.rglob("*")}


def test_a_job_begins_anew_once_and_its_ranks_go_on_when_they_are_started_again(start: Start) -> None:
    start.task()
    start.save(4)
    assert start.task("--overwrite_output_dir", began="job") is None
    later = start.save(8)
    assert start.task("--overwrite_output_dir", began="job") == later
    with pytest.raises(Refusal, match="holds another run"):
        start.task("--seed", "1", began="job")
    assert start.task("--overwrite_output_dir", began="another") is None


def test_what_a_file_system_has_of_its_own_is_no_result(start: Start) -> None:
    start.task()
    for name in ("lost+found", ".snapshot"):
        (start.directory / name).mkdir()
    assert start.task("--seed", "1") is None


def test_who_begins_anew_goes_on_from_nothing_that_was_there(start: Start) -> None:
    start.task()
    start.save(4)
    assert start.task("--overwrite_output_dir", "--seed", "1") is None
    assert start.task("--seed", "1") is None  # as a pod that starts again
    later = start.save(8)
    assert start.task("--seed", "1") == later
    assert start.task("--overwrite_output_dir", "--seed", "1") is None


def test_a_copy_goes_on_from_nothing_that_was_there_either(start: Start, tmp_path: Path) -> None:
    start.task()
    start.save(4)
    start.task("--overwrite_output_dir")
    other = Start(tmp_path / "copy")
    shutil.copytree(start.directory, other.directory, copy_function=shutil.copyfile)
    assert other.task() is None
    (other.directory / "checkpoint-8").mkdir()
    later = other.save(12)
    assert other.task() == later


def test_a_pod_that_begins_at_a_checkpoint_of_the_user_goes_on_too(start: Start) -> None:
    start.task()
    named = start.save(4)
    words = ["--seed", "1", "--resume_from_checkpoint", named]
    assert start.task(*words) == start.task(*words) == named
    later = start.save(8)
    assert start.task(*words) == later == start.task("--seed", "1")
    assert start.task(*words, "--overwrite_output_dir") == named == start.task(*words)
    another = str(start.directory.parent)
    assert start.task("--seed", "1", "--resume_from_checkpoint", another) == another


@pytest.mark.parametrize(("words", "variables"), [(["--resume_from_checkpoint", "/no"], {}), ([], {RESUME: "/no"})])
def test_a_checkpoint_that_is_not_there_does_not_end_the_run(
    start: Start, words: list[str], variables: Variables
) -> None:
    start.task()
    last = start.save(4)
    with pytest.raises(Refusal) as refused:
        start.task(*words, variables=variables)
    assert refused.value.value == "/no"
    assert start.task() == last


def test_nothing_secret_is_left(start: Start) -> None:
    words = ["--hub_token", "SECRET", "--api_key", "SECRET", "--file", "https://user:SECRET@host/a"]
    start.task(*words)
    start.save(4)
    assert "SECRET" not in (start.directory / "_multinode/run.json").read_text()
    assert start.task(*words) is not None


def test_a_task_without_the_trainer_is_guarded(start: Start) -> None:
    job = Command(TASK, "qa-no-trainer", ["--output_dir", str(start.directory)])
    start.task(job=job)
    start.save(4)
    start.task(job=job)
    with pytest.raises(Refusal, match="holds another run"):
        start.task()


@pytest.mark.parametrize(
    ("job", "given", "expected"),
    [
        (Command(TASK, "qa", []), {"output_dir": "/a"}, ("/a", False)),
        (Command(TASK, "qa", []), {"output_dir": "~/a"}, ("/home/me/a", False)),
        (Command(TASK, "qa", []), {"output_dir": "/a~"}, ("/a~", False)),
        (Command(TASK, "qa", []), {"output_dir": ""}, (None, False)),
        (Command(TASK, "qa", []), {"output_dir": 3}, (None, False)),
        (Command(TASK, "qa", []), {"output_dir": "/a\0b"}, (None, False)),
        (Command(TASK, "qa", []), {"output_dir": "/\ud800"}, (None, False)),
        (Command(SCRIPT, "x.py", []), {"output_dir": "~/a"}, ("/home/me/a", False)),
        (Command(SCRIPT, "x.py", []), {"output_dir": True}, ("/mine", False)),
    ],
)
def test_results_are_where_the_arguments_say_or_the_variable(
    job: Command, given: dict[str, object], expected: tuple[str | None, bool]
) -> None:
    assert find_results(job, given, {"MULTINODE_OUTPUT": "/mine", "HOME": "/home/me"}) == expected
    assert find_results(Command(SCRIPT, "x.py", []), {}, {}) == ("/workspace/output", True)


def test_a_node_with_a_directory_of_its_own_is_refused_nothing_but_another_run(start: Start) -> None:
    """It has its part of each checkpoint there, and no record."""
    (start.directory / "checkpoint-4").mkdir(parents=True)
    node = NODES._replace(node_rank=1)
    for words in ([], ["--seed", "1"]):
        check_directory(run := start.run(*words), node)
    start.task("--overwrite_output_dir")
    with pytest.raises(Refusal, match="holds another run"):
        check_directory(run, node)


@pytest.mark.parametrize(("rank", "is_shared", "is_refused"), [(0, True, True), (1, True, True), (1, False, False)])
def test_another_run_is_refused_before_anybody_waits(
    start: Start, tmp_path: Path, rank: int, is_shared: bool, is_refused: bool
) -> None:
    start.task("--seed", "2")
    start.save(4)
    run = Start(start.directory if is_shared else tmp_path).run()
    with pytest.raises(Refusal, match="holds another run") if is_refused else contextlib.nullcontext():
        check_directory(run, World(MPI, "", (2, 2), None, 1, rank, 0, 2, "127.0.0.1", 1))


@pytest.mark.parametrize(
    ("transformers", "torch", "words", "overwrites", "loose"),
    [
        ("5.23.0", "2.13.0", [], False, False),
        ("4.57.6", "2.13.0", [], True, False),
        ("4.57.6", "2.13.0", ["--overwrite_output_dir", "False"], True, False),
        ("4.46.3", "2.13.0", [], True, True),
        ("4.46.3", "2.4.0", [], True, False),
    ],
)
def test_releases_are_told_to_go_on_in_their_own_words(
    start: Start, transformers: str, torch: str, words: list[str], overwrites: bool, loose: bool
) -> None:
    stack = STACK._replace(transformers=transformers, torch=torch)
    start.task(*words, stack=stack)
    start.save(4)
    assert start.task(*words, stack=stack) is not None
    program, run = start.plan(*words, stack=stack)
    assert run is not None and not run.overwrite
    line = " ".join(program.words)
    assert ("--overwrite_output_dir" in line and "--overwrite_output_dir False" not in line) is overwrites
    assert ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in {setting.name for setting in program.defaults}) is loose


@pytest.mark.parametrize(("transformers", "refused"), [("4.31.0", True), ("4.32.0", False)])
def test_a_release_that_empties_the_directory_does_not_push(start: Start, transformers: str, refused: bool) -> None:
    stack = STACK._replace(transformers=transformers)
    start.plan("--push_to_hub", "False", stack=stack)
    try:
        start.plan("--push_to_hub", stack=stack)
    except Refusal:
        assert refused
    else:
        assert not refused


@pytest.mark.parametrize(("typed", "most"), [("100", 100), ("0", None), ("-1", None), (None, None)])
@pytest.mark.parametrize("written", [0, 7])
def test_a_record_says_which_checkpoints_are_the_runs(typed: str | None, most: int | None, written: int) -> None:
    """A number of steps that is none is the Trainer's own."""
    arguments = () if typed is None else (("max_steps", typed),)
    record = Record("qa", arguments, before={"4": "a"}, users=(3,), written=written)

    assert record.filter == CheckpointFilter({"4": "a"}, bool(written), frozenset({3}), most)


@pytest.mark.parametrize(
    ("here", "there", "different"),
    [({"a": "1"}, {"a": "1"}, []), ({"a": "1"}, {"a": "2"}, ["another content of a"]), ({"a": "1"}, {}, []),
     ({}, {"a": "1"}, [])],
)  # fmt: skip
def test_the_content_of_a_file_counts_where_it_was_kept(
    here: dict[str, str], there: dict[str, str], different: list[str]
) -> None:
    """Older releases have kept none."""
    assert list_differences(Run("/out", "qa", (), files=here), Record("qa", (), files=there)) == different
