"""Flags of one release, typed for another."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack
from multinode_image.memory.estimate import read_workload
from multinode_image.memory.model import Model
from multinode_image.results.plan import plan_run
from multinode_image.results.record import Record
from multinode_image.tasks import aliases
from multinode_image.tasks.aliases import ALIASES, OF_TRAINER, Alias, list_names, plain, split_flags, translate
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.command import TASK, Command
from multinode_image.tasks.defaults import check_arguments, check_order, check_reporters
from multinode_image.tasks.prefetch import list_wanted
from multinode_image.tasks.table import ACCELERATE, TASKS, TRAINER, find_task
from tests.support.harness import ROOT
from tests.support.starts import make_facts
from tests.support.trainer_fields import EVER, HISTORY

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "")
NAMES = {side.partition("=")[0] for rows in ALIASES.values() for row in rows for side in (row.old, row.new)}
RELEASES = ("4.30.2", "4.40.2", "4.46.3", "4.57.6", "5.0.0", "5.14.1", "5.23.0")
# What was typed for an old and for a new release.
OLD = (
    "--no_cuda --evaluation_strategy epoch --xpu_backend ccl --use_ipex --jit_mode_eval --overwrite_output_dir "
    "--group_by_length --adafactor --save_safetensors False"
)
CURRENT = (
    "--use_cpu --eval_strategy epoch --ddp_backend gloo --train_sampling_strategy group_by_length --optim adamw_torch"
)


def turn(line: str, transformers: str, kind: str = TRAINER, backend: str = "gloo") -> tuple[str, list[str]]:
    stack = NEW._replace(transformers=transformers, backend=backend)
    translated = translate(split_flags(line.split()), stack, ALIASES[kind])
    return " ".join(word for flag in translated.flags for word in flag.words()), translated.notes


@pytest.mark.parametrize(
    ("line", "release", "result"),
    [
        ("--no_cuda", "5.23.0", "--use_cpu"),
        ("--no_cuda False", "5.0.0", "--use_cpu False"),
        ("--use_cpu", "4.31.0", "--no_cuda"),
        ("--evaluation-strategy=epoch", "4.57.6", "--eval_strategy=epoch"),
        ("--eval_strategy epoch", "4.40.0", "--evaluation_strategy epoch"),
        ("--xpu_backend ccl", "5.23.0", "--ddp_backend gloo"),
        ("--ddp_backend=ccl", "4.46.0", "--ddp_backend=gloo"),
        ("--use_ipex True --bf16", "5.0.0", "--bf16"),
        ("--use_ipex --bf16", "4.46.0", "--bf16"),
        ("--overwrite_output_dir --seed 1", "5.0.0", "--seed 1"),
        ("--adafactor", "5.0.0", "--optim adafactor"),
        ("--adafactor False", "5.0.0", ""),
        ("--adafactor=True", "5.0.0", "--optim=adafactor"),
        ("--optim adamw_hf", "4.50.0", "--optim adamw_torch"),
        ("--group_by_length", "5.2.0", "--train_sampling_strategy group_by_length"),
        ("--group_by_length False", "5.2.0", ""),
        ("--train_sampling_strategy=group_by_length", "5.1.0", "--group_by_length"),
        ("--torch_dtype bfloat16", "4.56.0", "--dtype bfloat16"),
        ("--dtype bfloat16", "4.55.4", "--torch_dtype bfloat16"),
        ("--use_auth_token", "4.41.0", ""),
        ("--dataset_name squad", "5.0.0", "--dataset_name rajpurkar/squad"),
        ("--no_cuda False --use_cpu", "5.0.0", "--use_cpu"),
        ("--no_cuda --use_cpu False", "5.0.0", "--use_cpu False"),
        ("--adafactor --optim adamw_torch", "5.23.0", "--optim adamw_torch"),
    ],
)
def test_what_another_release_has_is_translated(line: str, release: str, result: str) -> None:
    text, notes = turn(line, release)
    assert (text, len(notes)) == (result, 1)


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("--no_cuda", "4.46.0"),
        ("--use_cpu", "4.32.0"),
        ("--warmup_ratio 0.1", "5.23.0"),
        ("--optim adamw_hf", "4.49.0"),
        ("--train_sampling_strategy random", "5.1.0"),
        ("--past_index 2", "5.0.0"),
        ("--dataset_name=squad", "4.57.6"),
        ("--dataset_name mine/squad", "5.0.0"),
        ("--mine 1 2 --other=-3 --bf16", "5.23.0"),
    ],
)
def test_what_the_release_has_or_nothing_stands_for_is_untouched(line: str, release: str) -> None:
    assert turn(line, release) == (line, [])


def test_ccl_stays_where_the_bindings_are() -> None:
    for line, release in (("--ddp_backend ccl", "4.46.0"), ("--xpu_backend ccl", "4.31.0"), ("--use_ipex", "4.46.0")):
        assert turn(line, release, backend="ccl")[0] == line
    assert turn("--ddp_backend ccl", "5.1.0", backend="ccl")[0] == "--ddp_backend gloo"


WORDS = st.lists(st.one_of(st.text(min_size=1), st.text(min_size=1).map(lambda text: f"--{text}")))


@given(WORDS, st.sampled_from(RELEASES), st.sampled_from([TRAINER, ACCELERATE]))
def test_what_is_unknown_goes_through_untouched(words: list[str], release: str, kind: str) -> None:
    assert [word for flag in split_flags(words) for word in flag.words()] == words
    flags = [flag for flag in split_flags(words) if plain(flag.name) not in NAMES]
    assert translate(flags, NEW._replace(transformers=release), ALIASES[kind]) == (flags, [])


@pytest.mark.parametrize("row", [row for row in OF_TRAINER if "=" not in row.old and row.old in EVER], ids=str)
def test_a_row_has_the_edges_of_the_releases(row: Alias) -> None:
    having = [release for release, fields in HISTORY.items() if row.old in fields]
    assert row.until == min(release for release in HISTORY if release > max(having))
    if row.new in EVER:
        since = min(release for release, fields in HISTORY.items() if row.new in fields)
        assert since in (row.since, min(HISTORY))


@pytest.mark.parametrize("release", list(HISTORY)[::4])
def test_every_line_we_produce_has_only_flags_of_its_release(release: tuple[int, int]) -> None:
    stack = NEW._replace(transformers=f"{release[0]}.{release[1]}.0", backend="ccl")
    for task in TASKS.values():
        for line in ("", OLD, CURRENT) if task.kind == TRAINER else ():
            words = complete(task, "x.py", line.split(), stack, many=True).words
            names = {plain(flag.name) for flag in split_flags(words)}
            assert names & EVER <= HISTORY[release], (task.name, line)


def list_read() -> set[str]:
    """List the flags of the Trainer that our sources name: whoever reads or sets one is among them."""
    paths = [path for part in READERS for path in (ROOT / "multinode_image" / part).glob("*.py")]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)} & EVER


READERS = ("memory", "programs", "results", "tasks")
READ = list_read()


def test_a_flag_that_we_read_or_set_has_a_name_in_every_release() -> None:
    """What one release has and a later one has not is a row, for all who read or set it."""
    assert {"do_train", "output_dir", "report_to", "warmup_steps", "gradient_accumulation_steps"} <= READ
    since = {flag: min(release for release, fields in HISTORY.items() if {*list_names(flag)} & fields) for flag in READ}
    dropped = {row.old: row.until for row in OF_TRAINER}

    missing = {
        f"--{flag} in transformers {release}"
        for release, fields in HISTORY.items()
        for flag in READ
        if since[flag] <= release < dropped.get(flag, (99, 0)) and not {*list_names(flag)} & fields
    }
    assert not missing, "a row of tasks/aliases.py has what these flags are called there"


def test_a_field_that_hooks_read_by_one_name_has_it_in_every_release() -> None:
    """Others are read by name_field, as a setting that makes another training."""
    hooks = (ROOT / "multinode_image/hooks").rglob("*.py")
    nodes = [node for path in hooks for node in ast.walk(ast.parse(path.read_text()))]
    fields = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "args"
    } & EVER
    assert {"output_dir", "save_strategy"} <= fields
    since = {field: min(release for release, known in HISTORY.items() if field in known) for field in fields}
    gone = {
        field
        for field in fields
        for release, known in HISTORY.items()
        if release >= since[field] and field not in known
    }
    assert not gone


def test_all_names_of_a_flag_are_read_alike() -> None:
    assert list_names("no_cuda") == ("no_cuda", "use_cpu")
    assert list_names("group_by_length") == ("group_by_length",)  # a value of another flag by now
    assert list_names("seed") == ("seed",)


TO_COME = NEW._replace(transformers="90.0.0", site="/absent")
NEWER = "new_"  # how the name of a flag begins in that release
MODEL = Model(66_000_000, 4, 768, 3072, 6, 12, 30522, 512, False, "", 0.1)
# What a start does depends on each of these flags.
LINES = (
    "qa",
    "qa --do_eval False --max_steps 3 --optim sgd --bf16 --gradient_checkpointing --gradient_accumulation_steps 2",
    "qa --output_dir /out --resume_from_checkpoint /c --push_to_hub --report_to none --seed 1 --use_cpu False",
    "qa --do_predict --hub_token TOKEN --per_device_train_batch_size 3 --ddp_backend mpi --num_train_epochs 3",
    "qa --do_train --train_file a.csv --model_revision v2 --cache_dir /c --version_2_with_negative",
    "qa --train_sampling_strategy group_by_length --eval_strategy steps",
    "qa --pad_to_max_length --max_seq_length 64",
    "qa --output_dir=",
    "glue --report_to absent",
    "glue --task_name sst2",
    "clm --config_name mine --train_file a.txt",
    "clm --do_eval --validation_file a.txt --learning_rate 1",
    "translation --target_lang de --dataset_config_name de-en",
    "mae --train_dir photos",
    "mim-no-trainer --with_tracking --report_to absent",
    "generation --model_name_or_path gpt2",
    "qa --warmup_steps 1 --save_strategy no --logging_strategy no --disable_tqdm True --dataloader_drop_last True "
    "--dataloader_pin_memory False --ddp_find_unused_parameters False",
)
TYPED = {flag.name for line in LINES for flag in split_flags(line.split()) if flag.name}


def describe(line: str) -> str:
    """Describe all that is decided by the arguments of a task, or why it is refused."""
    name, *words = line.split()
    task, job = find_task(name), Command(TASK, name, words)
    try:
        program = complete(task, "x.py", words, TO_COME, many=True)
        check_order(task, program.arguments, TO_COME)
        check_reporters(task, program.arguments, TO_COME, {})
        check_arguments(task, program.arguments)
        program, run = plan_run(job, program, make_facts({}, TO_COME))
    except Refusal as refusal:
        return str(refusal)
    known_by = sorted((name.replace(NEWER, ""), value) for name, value in (run.arguments if run else ()))
    workload = read_workload(MODEL, program.arguments, several=True)
    wanted = list_wanted(task, program.arguments, None, "", lambda _: False)
    return repr((program.words, run and replace(run, arguments=()), known_by, workload, wanted))


@pytest.mark.parametrize("flag", sorted((READ | TYPED) - {row.old for row in OF_TRAINER}))
def test_a_flag_that_is_renamed_is_one_row(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    """As if a release to come called it otherwise: whoever reads it finds it by the new name."""
    assert flag in TYPED or flag in TASKS["qa"].defaults, "a line with it, by which a start is another one"
    before = [describe(line) for line in LINES]
    row = Alias(flag, (90, 0), NEWER + flag, (90, 0))
    monkeypatch.setattr(aliases, "OF_TRAINER", (*aliases.OF_TRAINER, row))
    monkeypatch.setitem(ALIASES, TRAINER, (*ALIASES[TRAINER], row))

    lines = [re.sub(rf"--(?={flag}\b)", rf"--{NEWER}", line) for line in LINES]
    assert [describe(line).replace(NEWER, "") for line in lines] == before
    assert Record("qa", ((f"{NEWER * (flag == 'max_steps')}max_steps", "100"),)).filter.most == 100
