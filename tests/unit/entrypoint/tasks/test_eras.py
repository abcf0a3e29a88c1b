"""The tables of flags, against what the Trainer knew in each release."""

from __future__ import annotations

import pytest

from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import arguments
from entrypoint.tasks.eras import ALWAYS, CHOICES, ERAS, STILL, Choice
from entrypoint.tasks.flags import plain, split_flags, translate
from entrypoint.tasks.tasks import TASKS
from tests.support.trainer_fields import EVER, HISTORY

FIRST, LAST = min(HISTORY), max(HISTORY)
BY_NAME = {era.name: era for era in ERAS}
# The script refuses these where they have gone: without them the training would be another one.
REFUSED = {
    "past_index", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap", "sharded_ddp", "tp_size",
    "dispatch_batches", "split_batches", "push_to_hub_organization",
}  # fmt: skip
OF_SCRIPTS = {"dtype", "torch_dtype", "reduce_labels", "do_reduce_labels"}
OLD = (
    "--no_cuda --evaluation_strategy epoch --xpu_backend ccl --use_ipex --jit_mode_eval --overwrite_output_dir "
    "--group_by_length --warmup_ratio 0.1 --logging_dir /tmp/logs --adafactor --torchdynamo eager "
    "--half_precision_backend auto --include_inputs_for_metrics --save_safetensors False --per_gpu_eval_batch_size 4 "
    "--ray_scope last --tpu_num_cores 1 --push_to_hub_model_id m --push_to_hub_token t"
)
NEW = (
    "--use_cpu --eval_strategy epoch --ddp_backend gloo --train_sampling_strategy group_by_length --warmup_steps 0.1 "
    "--include_for_metrics inputs --activation_checkpointing --dataloader_persistent_workers "
    "--dataloader_prefetch_factor 2 --dataloader_num_workers 1 --torch_empty_cache_steps 5 --optim adamw_torch"
)


def stack(release: tuple[int, int], backend: str = "gloo") -> Stack:
    return Stack("2.13.0+cpu", f"{release[0]}.{release[1]}.0", "3.11", backend, "/examples", "")


@pytest.mark.parametrize("name", sorted({era.name for era in ERAS} & EVER))
def test_a_row_has_the_edges_of_the_releases(name: str) -> None:
    having = [release for release, fields in HISTORY.items() if name in fields]
    later = [release for release in HISTORY if release > max(having)]
    since = ALWAYS if min(having) == FIRST else min(having)
    assert (BY_NAME[name].since, BY_NAME[name].until) == (since, min(later, default=STILL))


def test_every_flag_that_has_gone_is_decided_upon() -> None:
    assert EVER - HISTORY[LAST] == {era.name for era in ERAS if era.until != STILL and era.name in EVER} | REFUSED
    assert not REFUSED & BY_NAME.keys()


@pytest.mark.parametrize("release", HISTORY)
def test_what_stands_in_place_is_known(release: tuple[int, int]) -> None:
    for row in (*ERAS, *CHOICES):
        value = [row.value.replace("*", "1")] if isinstance(row, Choice) else []
        made = translate(split_flags([f"--{row.name}", *value]), stack(release))
        if made.notes and not (row.name == "activation_checkpointing_kwargs" and release < (4, 35)):
            assert {flag.name for flag in made.flags} <= HISTORY[release] | OF_SCRIPTS, row


@pytest.mark.parametrize("backend", ["gloo", "ccl"])
@pytest.mark.parametrize("release", HISTORY)
def test_every_line_we_produce_has_only_flags_of_its_release(release: tuple[int, int], backend: str) -> None:
    for name, task in TASKS.items():
        if task.kind != "trainer" or task.since > release:
            continue
        for line in ("", OLD, NEW):
            words = arguments(name, task, line.split(), stack(release, backend), many=True).words
            names = {plain(flag.name) for flag in split_flags(words)}
            assert names & EVER <= HISTORY[release], (name, line)
