"""Where a processor has no unit for bf16, a training runs in float32."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import Program, complete, read_program
from entrypoint.tasks.bf16 import settle_bf16
from entrypoint.tasks.command import Command
from entrypoint.tasks.table import find_task
from entrypoint.world.model import ALONE, World

STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "/site")
IPEX = STACK._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
WITHOUT, WITH = frozenset({"fpu", "avx2", "avx512f"}), frozenset({"fpu", "amx_bf16"})
PRECISION = {"ACCELERATE_MIXED_PRECISION": "bf16"}


def read(line: str, stack: Stack = STACK) -> tuple[Command, Program]:
    name, *words = line.split()
    kind = {"smoke": "smoke", "/s.py": "script"}.get(name, "task" if name.startswith("qa") else "plain")
    job = Command(kind, name, words)
    if kind == "task":
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
        ("qa --bf16_f", {}, {"bf16_full_eval": "False"}, None),  # argparse takes a beginning
        ("qa --use_ipex --bf16", {}, {"bf16": "False", "use_ipex": True}, None),
        ("qa", PRECISION, {}, "no"),
        ("qa-no-trainer --bf16", {}, {}, "no"),
        ("qa-no-trainer", PRECISION, {}, "no"),
        ("smoke --bf16", {}, {"bf16": "False"}, None),
        ("smoke --bf16 --max_steps 3", PRECISION, {"bf16": "False", "max_steps": "3"}, "no"),
    ],
)
def test_what_asks_for_bf16_is_switched_off(
    line: str, environ: dict[str, str], flags: dict[str, object], precision: str | None
) -> None:
    job, before = read(line, IPEX if "ipex" in line else STACK)

    after = settle_bf16(job, before, environ, WITHOUT, several=False)

    words = " ".join(after.words)
    for name, value in flags.items():
        assert str(after.given[name]) == str(value)
        spelled = [each for each in (name, name.replace("_", "-")) if f"--{each}" in words]
        assert value is True or any(f"--{each} {value}" in words or f"--{each}={value}" in words for each in spelled)
    assert {each.name: each.value for each in after.typed}.get("ACCELERATE_MIXED_PRECISION") == precision
    assert len(after.notes) == len(before.notes) + 1 and "MULTINODE_BF16=emulate" in after.notes[-1]
    # A processor with units, one of which nothing is known, and a user who insists.
    for units, more in ((WITH, {}), (frozenset[str](), {}), (WITHOUT, {"MULTINODE_BF16": "emulate"})):
        assert settle_bf16(job, before, {**environ, **more}, units, several=True) == before
    assert settle_bf16(job, before, {**environ, "MULTINODE_BF16": "float32"}, WITH, several=True).words == after.words


def test_a_file_of_arguments_is_copied(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"bf16": True, "bf16_full_eval": False, "output_dir": "/o", "use_cpu": True}))
    job, before = read(f"qa {file}")

    after = settle_bf16(job, before, {}, WITHOUT, several=False)

    assert json.loads(after.files[after.words[-1]])["bf16"] is False
    assert json.loads(file.read_text())["bf16"] is True


@pytest.mark.parametrize("line", ["qa", "qa --bf16 False", "qa --bf16_full_eval=0", "smoke", "/s.py", "true --x"])
def test_what_does_not_ask_for_it_stays(line: str) -> None:
    job, before = read(line)
    assert settle_bf16(job, before, {}, WITHOUT, several=True) == before


@pytest.mark.parametrize(
    ("line", "words", "notes"),
    [
        ("/s.py --bf16", "/s.py --bf16", 1),
        ("/s.py --dtype bfloat16", "/s.py --dtype bfloat16", 1),
        ("torchrun --nproc_per_node 2 x.py --bf16", "torchrun --nproc_per_node 2 x.py --bf16", 1),
        ("python3 x.py --bf16=False", "python3 x.py --bf16=False", 0),
        ("accelerate launch --mixed_precision bf16 x.py", "accelerate launch --mixed_precision no x.py", 1),
        (
            "accelerate launch --mixed-precision=bf16 x.py --bf16",
            "accelerate launch --mixed-precision=no x.py --bf16",
            2,
        ),
        ("accelerate launch --mixed_precision fp16 x.py", "accelerate launch --mixed_precision fp16 x.py", 0),
        ("accelerate launch x.py --mixed_precision bf16", "accelerate launch x.py --mixed_precision bf16", 0),
    ],
)
def test_a_script_of_the_users_is_told_and_what_accelerate_is_told_is_changed(
    line: str, words: str, notes: int
) -> None:
    job, before = read(line)
    after = settle_bf16(job, before, {}, WITHOUT, several=True)
    assert (" ".join(after.words), len(after.notes)) == (words, notes)
    assert [each.value for each in settle_bf16(job, before, PRECISION, WITHOUT, several=True).typed] == ["no"]


@pytest.mark.parametrize(
    ("line", "environ", "refused"),
    [
        ("qa --bf16", {}, False),  # weights and gradients are float32 all the same
        ("qa --bf16 --bf16_full_eval", {}, True),
        ("qa --bf16 --use_ipex", {}, True),
        ("qa --bf16 --use_ipex", {"MULTINODE_BF16": "float32"}, False),
        ("qa --use_ipex", {}, False),
        ("qa --bf16 --fsdp full_shard", {}, True),
        ("qa --deepspeed d.json", PRECISION, True),
        ("qa --use_ipex False --bf16", {}, False),
    ],
)
def test_a_node_of_several_does_not_decide_alone_what_ranks_exchange(
    line: str, environ: dict[str, str], refused: bool
) -> None:
    job, before = read(line, IPEX)
    settle_bf16(job, before, environ, WITHOUT, several=False)
    if not refused:
        settle_bf16(job, before, environ, WITHOUT, several=True)
        return
    with pytest.raises(Refusal) as caught:
        settle_bf16(job, before, environ, WITHOUT, several=True)
    assert caught.value.code == 2 and "export MULTINODE_BF16=float32 on every node" in caught.value.remedy


def test_an_unknown_word_is_refused() -> None:
    job, before = read("smoke")
    with pytest.raises(Refusal, match="MULTINODE_BF16 has a value that is not known: 'yes'"):
        settle_bf16(job, before, {"MULTINODE_BF16": "yes"}, WITH, several=False)
