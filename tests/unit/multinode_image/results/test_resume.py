"""Where a run goes on: what a start and a rank find in a directory, and which run may have it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.files import read_text
from multinode_image.machine.image import Stack
from multinode_image.results import plan, resume
from multinode_image.results.plan import find_results, plan_run
from multinode_image.results.record import RESUME, Record, Run, parse_record
from multinode_image.results.resume import RUN, check_directory, finds, open_run, read_step, resume_rank, write_offer
from multinode_image.results.shared import make_shared
from multinode_image.tasks.arguments import Program, complete
from multinode_image.tasks.command import PLAIN, SCRIPT, TASK, Command
from multinode_image.tasks.table import find_task
from multinode_image.world.model import ALONE, MPI, TORCHRUN, TORCHRUN_WORKER, World
from tests.support.runs import checkpoint
from tests.support.starts import make_facts, place

STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
ONE, TWO = World(ALONE, "", local_size=1, size=1), World(ALONE, "", local_size=2, size=2)
NODES = World(TORCHRUN, "", (2, 2), 0, 1)
SNIPPET = 'trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)'

Variables = Mapping[str, str]
NONE: Variables = {}
NEXT = count(20000)  # another port for each job: a rank may still call when its own has ended


@dataclass
class Start:
    """Starts a task, or a script of the user's, into one directory."""

    directory: Path
    script: Path
    said: list[str] = field(default_factory=list)

    def plan(
        self,
        *words: str,
        job: Command | None = None,
        world: World = ONE,
        stack: Stack = STACK,
        variables: Variables = NONE,
    ) -> tuple[Program, Run | None]:
        """Return what is planned."""
        job = job or Command(TASK, "qa", [*words, "--output_dir", str(self.directory)])
        own = Program([job.name, *job.words], [], {})
        made = complete(find_task(job.name), "x.py", job.words, stack, many=False) if job.kind == TASK else own
        facts, starts = make_facts(variables, stack, files=read_text), place(world, job).role.is_torchrun
        return plan_run(job, made, world, facts, starts=starts)

    def task(self, *words: str, stack: Stack = STACK) -> str | None:
        """Start a task and return the checkpoint that it goes on from."""
        program, run = self.plan(*words, stack=stack)
        assert run is not None
        check_directory(run, ONE)
        typed = ["python3", *program.words]
        argv, variables = open_run(run, typed, ONE, {}, self.said.append)
        assert (argv[:2], variables) == (typed[:2], {})
        assert argv.count("--resume_from_checkpoint") <= 1
        return value(argv, "--resume_from_checkpoint")

    def own(self, *words: str, variables: Variables = NONE) -> str | None:
        """Start the script and return what its variable says."""
        job = Command(SCRIPT, str(self.script), [*words, "--output_dir", str(self.directory)])
        program, run = self.plan(job=job, variables=variables)
        assert run is not None
        check_directory(run, ONE)
        environ = {**variables, **{each.name: each.value for each in program.forced}}
        argv, handed = open_run(run, ["python3", *program.words], ONE, environ, self.said.append)
        assert argv == ["python3", *program.words]
        return {**environ, **handed}[RESUME] or None

    def save(self, step: int) -> str:
        """Leave a checkpoint."""
        return str(checkpoint(self.directory, step))


def value(argv: list[str], flag: str) -> str | None:
    return argv[argv.index(flag) + 1] if flag in argv else None


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "train.py").write_text(SNIPPET)
    return Start(tmp_path / "output", tmp_path / "train.py")


@pytest.fixture(params=["task", "own"])
def kind(request: pytest.FixtureRequest, start: Start) -> Callable[..., str | None]:
    """Return how a task is started, or a script: what holds for one holds for the other."""
    return start.task if request.param == "task" else start.own


@pytest.mark.parametrize(
    ("line", "handover"),
    [
        ("clm --do_train --output_dir /out", "flag"),
        ("clm-no-trainer --output_dir /out", "never"),
        ("speech-recognition-ctc --do_train --output_dir /out", "never"),
        ("qa --do_train False", None),
        ("qa --do_eval", None),
        ("qa --output_dir s3://bucket", None),
        ("generation", None),
    ],
)
def test_what_trains_has_a_run_and_what_reads_the_flag_a_checkpoint(
    start: Start, line: str, handover: str | None
) -> None:
    name, *words = line.split()
    _, run = start.plan(job=Command(TASK, name, words))
    assert (run.handover if run else None) == handover


def test_the_same_command_goes_on_from_its_last_whole_checkpoint(start: Start, kind: Callable[..., str | None]) -> None:
    assert kind("--seed", "1") is None
    first, second = start.save(4), start.save(8)
    assert kind("--seed", "1") == second
    (Path(second) / "optimizer.pt").write_bytes(b"")
    assert kind("--seed", "1", "--logging_steps", "1", "--save_total_limit", "2") == first
    assert start.said[-1] == f"checkpoint-8 is damaged (optimizer.pt is empty): goes on from {first}"


@pytest.mark.parametrize("words", [["--seed", "2"], [], ["--seed", "1", "--lr", "1"]])
def test_another_run_is_refused_as_long_as_there_is_something(
    start: Start, kind: Callable[..., str | None], words: list[str]
) -> None:
    kind("--seed", "1")
    assert kind(*words) is None  # nothing was written yet
    kind("--seed", "1")
    place = start.save(4)
    with pytest.raises(Refusal, match="holds another run") as error:
        kind(*words)
    assert place in error.value.remedy


@pytest.mark.parametrize("starts", [True, False])
def test_the_lock_of_a_run_is_kept_unless_torchrun_starts_its_ranks(
    start: Start, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    """They take it themselves; else two jobs would write into one directory."""
    opened = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(resume, "make_shared", lambda path: replace_lock(make_shared(path), opened))
    _, run = start.plan()
    assert run is not None
    resume.begin(replace(run, starts=starts), ONE, start.said.append)
    closed = False
    try:
        os.fstat(opened)
        os.close(opened)
    except OSError:
        closed = True
    assert closed is starts


def replace_lock(shared: Any, opened: int) -> Any:
    """Return our directory, whose lock is a file of the test."""
    return SimpleNamespace(read=shared.read, write=shared.write, lock=lambda _: opened)


@pytest.mark.parametrize(("first", "second"), [("a.cfg", "b.cfg"), ("lr=1", "lr=3"), ("--fp16 a.cfg", "a.cfg --fp16")])
def test_another_word_of_a_script_is_another_run(start: Start, first: str, second: str) -> None:
    start.own(*first.split())
    place = start.save(4)
    with pytest.raises(Refusal, match="holds another run"):
        start.own(*second.split())
    assert start.own(*first.split()) == place


def test_another_content_of_a_file_is_another_run(start: Start, kind: Callable[..., str | None]) -> None:
    config = start.directory.parent / "a.cfg"
    config.write_text("lr=1")
    kind("--config", str(config))
    place = start.save(4)
    assert kind("--config", str(config)) == place
    config.write_text("lr=2")
    with pytest.raises(Refusal, match=f"another content of {config}"):
        kind("--config", str(config))


def leave_run(start: Start, task: str, arguments: Mapping[str, str]) -> None:
    """Leave what a start in another image has left."""
    fields = {
        "task": task, "arguments": [*arguments.items()], "before": {}, "name": "00ff", "resume_from": "",
        "files": {}, "users": [os.getuid()], "written": 0,
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
        program, run = start.plan(job=job, stack=stack)
        assert run is not None
        check_directory(run, ONE)
        argv, _ = open_run(run, program.words, ONE, {}, start.said.append)
        assert value(argv, "--resume_from_checkpoint") == place
    other = Command(TASK, "ner", ["--seed", "1", *job.words])
    with pytest.raises(Refusal, match="--seed not set there, 1 here"):
        check_directory(start.plan(job=other)[1] or pytest.fail("no run"), ONE)


def test_what_a_run_writes_again_is_its_own_whatever_is_in_it(start: Start, kind: Callable[..., str | None]) -> None:
    kind()
    place = Path(start.save(4))
    os.utime(place / "trainer_state.json", (1, 1))
    start.own(variables={RESUME: "no"}) if kind == start.own else start.task("--overwrite_output_dir")
    assert kind() is None
    shutil.rmtree(place)
    start.save(4)
    assert kind() == str(place)


def test_who_goes_on_as_another_user_is_noted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start.task()
    record, uid = start.directory / "_multinode/run.json", os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 7)
    start.task()
    assert json.loads(record.read_text())["users"] == [uid, uid + 7]


@pytest.mark.parametrize(
    "fields",
    [
        {"written": "1e309"}, {"users": "[1e309]"}, {"users": "[1e300]"}, {"users": '["0"]'}, {"written": "9" * 5000},
        {"written": "NaN"}, {"users": "{}", "before": "[" * 5000},
    ],
)  # fmt: skip
def test_a_record_whose_numbers_are_none_is_no_record(fields: dict[str, str]) -> None:
    known = {"task": '"x"', "arguments": "[]", "resume_from": '""', "before": "{}", "users": "[7]", "written": "1"}
    text, other = (json.dumps({**known, **each}) for each in (fields, {}))
    for name, value in {**known, **fields}.items():
        text, other = text.replace(json.dumps(value), value), other.replace(json.dumps(known[name]), known[name])

    assert parse_record(text) is None
    assert parse_record(other) == Record("x", (), users=(7,), written=1)


@pytest.mark.parametrize(
    ("offer", "step"),
    [("", None), (" x y", None), ("4 x y", 4), ("4", 4), ("9" * 5000, None), ("-4 x", None), ("٣", None)],
)
def test_the_step_of_an_offer_is_a_number_that_can_be_meant(offer: str, step: int | None) -> None:
    assert read_step(offer) == step


def test_checkpoints_one_level_below_are_named(start: Start) -> None:
    start.own()
    below = checkpoint(start.directory / "st", 8)
    os.utime(below / "trainer_state.json", (1, 1))  # of a run before it
    assert start.own() is None and start.said == []
    os.utime(below / "trainer_state.json")
    assert start.own() is None and f"{RESUME}={below}" in start.said[-1]


def test_another_program_is_refused(start: Start, tmp_path: Path) -> None:
    start.own()
    start.save(4)
    (tmp_path / "other.py").write_text(SNIPPET)
    for refused in (start.task, Start(start.directory, tmp_path / "other.py").own):
        with pytest.raises(Refusal, match="there, "):
            refused()


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"task": 1}', "x" * 99])
def test_checkpoints_without_a_record_are_refused(
    start: Start, kind: Callable[..., str | None], text: str | None
) -> None:
    start.save(4)
    if text is not None:
        (start.directory / "_multinode").mkdir()
        (start.directory / "_multinode/run.json").write_text(text)
    with pytest.raises(Refusal, match="no record"):
        kind()
    assert "lock" not in {path.name for path in start.directory.rglob("*")}


def test_who_begins_anew_goes_on_from_nothing_that_was_there(start: Start) -> None:
    start.task()
    start.save(4)
    assert start.task("--overwrite_output_dir", "--seed", "1") is None
    assert start.task("--seed", "1") is None  # as a pod that starts again
    later = start.save(8)
    assert start.task("--seed", "1") == later
    assert start.task("--overwrite_output_dir", "--seed", "1") is None


def test_a_script_begins_anew_by_its_variable(start: Start) -> None:
    start.own()
    place = start.save(4)
    assert start.own("--seed", "1", variables={RESUME: "no"}) is None
    assert start.own("--seed", "2", variables={RESUME: place}) == place
    later = start.save(8)
    assert start.own("--seed", "2", variables={RESUME: place}) == later


def test_a_copy_goes_on_from_nothing_that_was_there_either(start: Start, tmp_path: Path) -> None:
    start.task()
    start.save(4)
    start.task("--overwrite_output_dir")
    other = Start(tmp_path / "copy", start.script)
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


def test_a_checkpoint_that_is_not_there_does_not_end_the_run(start: Start, kind: Callable[..., str | None]) -> None:
    kind()
    last = start.save(4)
    with pytest.raises(Refusal) as refused:
        start.own(variables={RESUME: "/no"}) if kind == start.own else start.task("--resume_from_checkpoint", "/no")
    assert refused.value.value == "/no"
    assert kind() == last


def test_nothing_secret_is_left(start: Start) -> None:
    words = ["--hub_token", "SECRET", "--api_key", "SECRET", "--file", "https://user:SECRET@host/a"]
    start.task(*words)
    start.save(4)
    assert "SECRET" not in (start.directory / "_multinode/run.json").read_text()
    assert start.task(*words) is not None


def test_a_script_without_the_trainer_is_guarded_and_begins_anew(start: Start) -> None:
    job = Command(TASK, "qa-no-trainer", ["--output_dir", str(start.directory)])
    program, run = start.plan(job=job)
    assert run is not None
    open_run(run, program.words, ONE, {}, start.said.append)
    start.save(4)
    assert open_run(run, program.words, ONE, {}, start.said.append) == (program.words, {})
    with pytest.raises(Refusal, match="holds another run"):
        start.task()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{script} --save_dir {out}/a", "{out}/a"),
        ("torchrun --nproc_per_node 2 {script} --output-dir {out}/a", "{out}/a"),
        ("python3 -u {script} --output_dir={out}/a", "{out}/a"),
        ("python3 -m torch.distributed.run {script}", "/mine"),
        ("{script} --lr 1", "/mine"),
        ("{script} --output_dir s3://bucket", None),
        ("accelerate launch {script}", None),  # its ranks have no variables of ours
        ("mpirun -n 2 python3 {script}", None),
        ("python3 -m {script}", None),
        ("{other} --output_dir {out}/a", None),  # which does not read it
        ("bash {script}", None),
        ("{comment}", None),  # which names it in a comment alone
    ],
)
def test_a_script_that_reads_the_variable_has_a_run(start: Start, tmp_path: Path, line: str, found: str | None) -> None:
    (tmp_path / "other.py").write_text("print()")
    (tmp_path / "comment.py").write_text(f"print()  # {SNIPPET}")
    names = {
        "script": start.script,
        "out": tmp_path,
        **{each: tmp_path / f"{each}.py" for each in ("other", "comment")},
    }
    name, *words = line.format(**names).split()
    job = Command(SCRIPT if name.endswith(".py") else PLAIN, name, words)
    _, run = start.plan(job=job, variables={"MULTINODE_OUTPUT": "/mine"})
    assert (run.directory if run else None) == (found and found.format(**names))


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


@pytest.mark.parametrize("world", [TWO, NODES, World(TORCHRUN, "", (1, 2), None, 1)])
@pytest.mark.parametrize("script", [True, False])
def test_ranks_of_torchrun_look_for_themselves_at_each_start(
    start: Start, monkeypatch: pytest.MonkeyPatch, world: World, script: bool
) -> None:
    monkeypatch.setattr(plan, "RANK_PROGRAM", str(start.script))  # it is there only in an image
    job = Command(SCRIPT, str(start.script), ["--output_dir", str(start.directory)]) if script else None
    program, run = start.plan(job=job, world=world)
    assert run is not None
    argv = ["torchrun", *program.words]
    assert open_run(run, argv, world, {}, start.said.append) == (argv, {})
    environ = {each.name: each.value for each in program.forced}
    rank = World(TORCHRUN_WORKER, "", (1, 1), 0, 1, 0, 0, 1)
    assert resume_rank(program.words, environ, rank, start.said.append) == (program.words, {})
    place = start.save(4)
    words, variables = resume_rank(program.words, environ, rank, start.said.append)
    assert (variables.get(RESUME) if script else value(words, "--resume_from_checkpoint")) == place
    assert resume_rank(["x.py"], {}, rank, start.said.append) == (["x.py"], {})


def test_a_node_with_a_directory_of_its_own_is_refused_nothing_but_another_run(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its part of each checkpoint there, and no record."""
    monkeypatch.setattr(plan, "RANK_PROGRAM", str(start.script))
    (start.directory / "checkpoint-4").mkdir(parents=True)
    node = NODES._replace(node_rank=1)
    for words in ([], ["--seed", "1"]):
        program, run = start.plan(*words, world=node)
        assert run is not None
        check_directory(run, node)
        assert open_run(run, program.words, node, {}, start.said.append) == (program.words, {})
    start.task("--overwrite_output_dir")
    assert run is not None
    with pytest.raises(Refusal, match="holds another run"):
        check_directory(run, node)


def ranks(hands: str, *directories: Path) -> list[str | None]:
    """Start a rank on each of several nodes, and return what each goes on from."""
    port = next(NEXT)

    def one(rank: int) -> str | None:
        size = len(directories)
        world = World(MPI, "", (size, size), None, 1, rank, 0, size, "127.0.0.1", port)
        words, variables = resume_rank(["x.py"], {RUN: f"{hands}:{directories[rank]}"}, world, lambda _: None)
        return variables.get(RESUME) or value(words, "--resume_from_checkpoint")

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, range(len(directories))))


@pytest.mark.usefixtures("meeting")
@pytest.mark.parametrize("hands", ["flag", "variable"])
def test_ranks_never_go_on_from_different_steps(tmp_path: Path, hands: str) -> None:
    shared, own, link = Start(tmp_path / "shared", tmp_path), Start(tmp_path / "own", tmp_path), tmp_path / "mount"
    link.symlink_to(shared.directory)
    assert ranks(hands, shared.directory, link) == [None, None]  # all are empty
    for each in (shared, own):
        each.task()
    places = [shared.save(4), *[f"{link}/checkpoint-4"] * 2]
    assert ranks(hands, shared.directory, link, link) == places
    assert ranks(hands, shared.directory, link, own.directory) == [None] * 3
    assert ranks(hands, own.directory, shared.directory) == [None] * 2
    own.save(4)  # that of another job, or written by each node for itself
    assert ranks(hands, own.directory, shared.directory) == [None] * 2
    assert ranks(hands, shared.directory, tmp_path / "none") == [None] * 2
    copy, names = tmp_path / "copy", [each.name for each in (shared.directory / "_multinode").iterdir()]
    shutil.copytree(shared.directory, copy)
    assert ranks(hands, shared.directory, copy) == [places[0], f"{copy}/checkpoint-4"]
    (copy / "checkpoint-4/trainer_state.json").write_text('{"global_step": 4, "log_history": [{"loss": 1}]}')
    assert ranks(hands, shared.directory, copy) == [None] * 2
    assert set(names) == {"lock", "run.json"}


@pytest.mark.parametrize(
    ("comes", "same_run", "found"),
    [(True, True, True), (False, True, False), (False, False, False)],
    ids=["late", "never", "of a disk of its own"],
)
def test_a_checkpoint_that_is_seen_late_is_waited_for(
    comes: bool, same_run: bool, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = Start(tmp_path / "first", tmp_path), Start(tmp_path / "later", tmp_path)
    for each in (first, later):
        each.task()
    if same_run:
        shutil.copytree(first.directory, later.directory, dirs_exist_ok=True)
    first.save(4)
    looks: list[float] = []

    def look_again(seconds: float) -> None:
        looks.append(seconds)
        if comes and len(looks) == 3:
            shutil.copytree(first.directory / "checkpoint-4", later.directory / "checkpoint-4")

    monkeypatch.setattr("time.sleep", look_again)
    monkeypatch.setattr("multinode_image.timeouts.SEEN", 60.0 if comes else 0.05)

    assert finds(str(later.directory), write_offer(str(first.directory), 4)) is found
    assert bool(looks) is same_run


def test_another_run_is_refused_before_anybody_waits(start: Start, tmp_path: Path) -> None:
    start.task("--seed", "2")
    start.save(4)
    for rank, directory, refused in ((0, start.directory, True), (1, start.directory, True), (1, tmp_path, False)):
        world = World(MPI, "", (2, 2), None, 1, rank, 0, 2, "127.0.0.1", 1)
        _, run = Start(directory, start.script).plan(world=world)
        assert run is not None
        if refused:
            with pytest.raises(Refusal, match="holds another run"):
                check_directory(run, world)
        else:
            check_directory(run, world)


@pytest.mark.usefixtures("meeting")
def test_other_nodes_end_where_another_job_has_the_directory_of_rank_0(start: Start, tmp_path: Path) -> None:
    """A node that has another directory cannot know."""
    start.task("--seed", "2")
    start.save(4)
    port = next(NEXT)

    def one(rank: int, directory: Path) -> None:
        world = World(MPI, "", (2, 2), None, 1, rank, 0, 2, "127.0.0.1", port)
        program, run = Start(directory, start.script).plan(world=world)
        assert run is not None
        open_run(run, program.words, world, {}, start.said.append)

    with ThreadPoolExecutor() as pool:
        found = [pool.submit(one, 0, start.directory), pool.submit(one, 1, tmp_path / "own")]
        for each in found:
            with pytest.raises(Refusal, match="holds another run"):
                each.result(20)


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
    assert ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in {each.name for each in program.defaults}) is loose


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
