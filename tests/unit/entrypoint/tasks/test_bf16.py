"""Where a processor has no unit for bf16, a training runs in float32."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import Program, complete, read_program
from entrypoint.tasks.bf16 import settle_bf16
from entrypoint.tasks.command import PLAIN, SCRIPT, SMOKE, TASK, Command
from entrypoint.tasks.table import find_task
from entrypoint.world.model import ALONE, World
from tests.support.starts import CCL, GLOO

WITHOUT, WITH = frozenset({"fpu", "avx2", "avx512f"}), frozenset({"fpu", "amx_bf16"})
PRECISION = {"ACCELERATE_MIXED_PRECISION": "bf16"}


def read(line: str, stack: Stack = GLOO) -> tuple[Command, Program]:
    name, *words = line.split()
    kind = {"smoke": SMOKE, "/s.py": SCRIPT}.get(name, TASK if name.startswith("qa") else PLAIN)
    job = Command(kind, name, words)
    if kind == TASK:
        return job, complete(find_task(name), "run.py", words, stack, many=True)
    return job, read_program(job, stack, {}, World(ALONE, "", local_size=1), "/root")


@pytest.mark.parametrize(
    ("line", "environ", "flags", "precision"),
    [
        ("qa --bf16", {}, {"bf16": "False"}, None),
        ("qa --bf16 True --do_train", {}, {"bf16": "False"}, None),
        ("qa --bf16=true", {}, {"bf16": "False"}, None),
        ("qa --bf16 --bf16_full_eval", {}, {"bf16": "False", "bf16_full_eval": "False"}, None),
        ("qa --bf16-full-eval", {}, {"bf16_full_eval": "False"}, None),
        ("qa --use_ipex --bf16", {}, {"bf16": "False", "use_ipex": True}, None),
        ("qa", PRECISION, {}, "no"),
        ("qa-no-trainer", PRECISION, {}, "no"),
        ("smoke --bf16", {}, {"bf16": "False"}, None),
        ("smoke --bf16 --max_steps 3", PRECISION, {"bf16": "False", "max_steps": "3"}, "no"),
    ],
)
def test_what_asks_for_bf16_is_switched_off(
    line: str, environ: dict[str, str], flags: dict[str, object], precision: str | None
) -> None:
    job, before = read(line, CCL if "ipex" in line else GLOO)

    after = settle_bf16(job, before, environ, WITHOUT, several=False)

    words = " ".join(after.words)
    for name, value in flags.items():
        assert str(after.arguments[name]) == str(value)
        spelled = [each for each in (name, name.replace("_", "-")) if f"--{each}" in words]
        assert value is True or any(f"--{each} {value}" in words or f"--{each}={value}" in words for each in spelled)
    assert {each.name: each.value for each in after.forced}.get("ACCELERATE_MIXED_PRECISION") == precision
    assert len(after.notes) == len(before.notes) + 1 and "MULTINODE_BF16=emulate" in after.notes[-1]
    # A processor with units, one of which nothing is known, and a user who insists.
    for units, more in ((WITH, {}), (frozenset[str](), {}), (WITHOUT, {"MULTINODE_BF16": "emulate"})):
        assert settle_bf16(job, before, {**environ, **more}, units, several=True) == before


@pytest.mark.parametrize("line", ["qa", "qa --bf16 False", "qa --bf16_full_eval=0", "smoke", "/s.py", "true --x"])
def test_what_does_not_ask_for_it_stays(line: str) -> None:
    job, before = read(line)
    assert settle_bf16(job, before, {}, WITHOUT, several=True) == before


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("/s.py --bf16", "--bf16: "),
        ("/s.py --dtype bfloat16", "--dtype bfloat16: "),
        ("torchrun --nproc_per_node 2 x.py --bf16", "--bf16: "),
        ("python3 x.py --bf16=False", ""),
        ("accelerate launch --mixed_precision bf16 x.py", "--mixed_precision bf16: "),
        ("accelerate launch --mixed_precision fp16 x.py", ""),
    ],
)
def test_a_script_of_the_users_is_told_and_not_changed(line: str, asked: str) -> None:
    job, before = read(line)
    after = settle_bf16(job, before, {}, WITHOUT, several=False)
    assert (after.words, after.forced) == (before.words, before.forced)
    assert len(after.notes) == bool(asked) and "".join(after.notes).startswith(asked)


@pytest.mark.parametrize(
    ("line", "exchanged"),
    [
        ("qa --bf16", ""),  # weights and gradients are float32 all the same
        ("qa --bf16_full_eval", "--bf16_full_eval"),
        ("qa --bf16 --use_ipex", "--use_ipex"),
        ("qa --bf16 --fsdp full_shard", "--fsdp"),
        ("qa --bf16 --deepspeed ds.json", "--deepspeed"),
        ("qa --bf16 --use_ipex False", ""),
    ],
)
def test_a_node_of_several_does_not_decide_alone_what_ranks_exchange(line: str, exchanged: str) -> None:
    job, before = read(line, CCL)
    assert settle_bf16(job, before, {}, WITHOUT, several=False).words != before.words
    try:
        assert settle_bf16(job, before, {}, WITHOUT, several=True).words != before.words and not exchanged
    except Refusal as refusal:
        assert exchanged and refusal.code == 2 and f"leave {exchanged} out" in refusal.remedy
    assert settle_bf16(job, before, {"MULTINODE_BF16": "emulate"}, WITHOUT, several=True) == before


@pytest.mark.parametrize("units", [WITH, WITHOUT])
def test_a_word_that_is_not_known_is_refused_by_every_node(units: frozenset[str]) -> None:
    job, before = read("qa")
    with pytest.raises(Refusal) as caught:
        settle_bf16(job, before, {"MULTINODE_BF16": "float32"}, units, several=True)
    assert (caught.value.value, caught.value.code) == ("'float32'", 2)
