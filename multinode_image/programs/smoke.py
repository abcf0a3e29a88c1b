"""Train a tiny question-answering model on data made on the spot, and fail unless all ranks trained it together.

It needs no network and no data. Any flag of the Trainer is accepted (`smoke --bf16`, `smoke --max_steps 200`).
It says on stderr when all ranks have done their first step together, and prints one line on stdout when all is well,
one on stderr when not:

    smoke: first step done 8.1 s after the start
    smoke: passed: world_size=2 backend=gloo dtype=bfloat16 loss_before=3.4965 loss_after=0.0102 ...
    smoke: failed: <what is wrong, with the numbers>
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import (
    DistilBertConfig,
    DistilBertForQuestionAnswering,
    HfArgumentParser,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from multinode_image.exchange.origins import read_autocast
from multinode_image.hooks.step.gradients import SEEN
from multinode_image.programs import smoke_checks as checks
from multinode_image.programs.leave import leave
from multinode_image.programs.smoke_checks import SEED, Failed, Report, default_flags
from multinode_image.tasks.aliases import find_argument
from multinode_image.tasks.arguments import read_batch
from multinode_image.world.ranks import read_job_name

LENGTH = 32
WORDS = 256
CLS, SEP, OPENS, CLOSES, FIRST_WORD = 1, 2, 3, 4, 8


class Questions(Dataset[dict[str, torch.Tensor]]):
    """Random words with two quotation marks among them; the answer is what is between."""

    def __init__(self, count: int, seed: int) -> None:
        """Draw all of them at once from a generator of their own."""
        random = torch.Generator().manual_seed(seed)
        self.words = torch.randint(FIRST_WORD, WORDS, (count, LENGTH), generator=random)
        self.starts = torch.randint(1, LENGTH - 3, (count,), generator=random)
        width = torch.randint(1, 8, (count,), generator=random)
        self.ends = torch.minimum(self.starts + width, torch.tensor(LENGTH - 2))
        rows = torch.arange(count)
        self.words[:, 0], self.words[:, -1] = CLS, SEP
        self.words[rows, self.starts], self.words[rows, self.ends] = OPENS, CLOSES

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one question as the model takes it: tensors of LENGTH words, and two positions."""
        return {
            "input_ids": self.words[index],
            "attention_mask": torch.ones(LENGTH, dtype=torch.long),
            "start_positions": self.starts[index],
            "end_positions": self.ends[index],
        }


class Clock(TrainerCallback):
    """Measure the training loop in seconds."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.began = self.seconds = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Print when the first step is done: the gradients of all ranks are in it."""
        if state.global_step == 1 and state.is_world_process_zero:
            print(f"smoke: first step done {age():.1f} s after the start", file=sys.stderr, flush=True)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        self.seconds = time.perf_counter() - self.began


def age() -> float:
    """Return the seconds since this process was started, the entrypoint's among them (proc(5), starttime)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def make_model() -> DistilBertForQuestionAnswering:
    """Build the model from its configuration alone, the same on every rank."""
    set_seed(SEED)
    shape: dict[str, Any] = {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": WORDS}
    quiet = {"dropout": 0.0, "attention_dropout": 0.0, "qa_dropout": 0.0}
    return DistilBertForQuestionAnswering(DistilBertConfig(max_position_embeddings=LENGTH, **shape, **quiet))


@torch.no_grad()
def measure_loss(model: torch.nn.Module) -> float:
    """Average the loss over questions that the training never sees."""
    questions = Questions(256, SEED + 1)
    model.eval()
    batch = {name: torch.stack([row[name] for row in map(questions.__getitem__, range(256))]) for name in questions[0]}
    return float(model(**batch).loss)


def digest_weights(model: torch.nn.Module) -> str:
    """Return a hash of every weight, to the last bit."""
    digest = hashlib.sha256()
    for name, weights in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weights.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


# Train a tiny question-answering model on data made on the spot, and fail unless all ranks trained it together.
#
# It needs no network and no data. Any flag of the Trainer is accepted (`smoke --bf16`, `smoke --max_steps 200`).
# It says on stderr when all ranks have done their first step together, and prints one line on stdout when all is well,
# one on stderr when not:
#
#     smoke: first step done 8.1 s after the start
#     smoke: passed: world_size=2 backend=gloo dtype=bfloat16 loss_before=3.4965 loss_after=0.0102 ...
#     smoke: failed: <what is wrong, with the numbers>

# Set before transformers is imported, which reads them only then.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def main(argv: list[str], environ: Mapping[str, str], root: str) -> NoReturn:
    """Run the job, and end with 0 only if every check held; root: the directory with stack.json."""
    output = tempfile.mkdtemp(prefix="smoke-")
    planned, rank, code = read_backend(Path(root, "stack.json")), 0, 0
    try:
        parser = HfArgumentParser(TrainingArguments)
        backend = planned if checks.launched_size(environ) > 1 else ""
        flags = default_flags(output, backend, TrainingArguments.__dataclass_fields__)
        arguments, *left = parser.parse_args_into_dataclasses([*flags, *argv], return_remaining_strings=True)
        rank = dist.get_rank() if dist.is_initialized() else 0
        checks.check_flags(left[-1])
        planned = str(find_argument(vars(arguments), "ddp_backend") or planned)
        summary = run(arguments, planned, environ)
        if rank == 0:
            print(f"smoke: passed: {summary}", flush=True)
    except Failed as failed:
        code = failed.code
        if rank == 0:
            print(f"smoke: failed: {failed}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(output, ignore_errors=True)
    leave(code)


def run(arguments: TrainingArguments, planned: str, environ: Mapping[str, str]) -> str:
    """Train, check, and sum up in one line."""
    # The Trainer's own idea of the world, for ranks that joined a group can still train apart.
    world = int(arguments.world_size)
    checks.check_world(world, gather(checks.asked_size(environ)))
    checks.check_jobs(gather(read_job_name(environ)))
    backend = str(dist.get_backend()) if dist.is_initialized() else "none"
    checks.check_used_backend(backend, planned)
    batch = read_batch(vars(arguments)) or 1
    model, clock = make_model(), Clock()
    before = measure_loss(model)
    types = watch_types(model)
    trainer = Trainer(model=model, args=arguments, train_dataset=Questions(4096, SEED), callbacks=[clock])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    samples = int(trainer.state.global_step) * batch * world
    report = Report(digest_weights(model), before, measure_loss(model))
    checks.check_reports([Report(*fields) for fields in gather(tuple(report))])
    facts = {
        "world_size": world,
        "backend": backend,
        "dtype": "+".join(sorted(set().union(*gather(types)))),
        "loss_before": f"{before:.4f}",
        "loss_after": f"{report.after:.4f}",
        "samples_per_second": f"{samples / clock.seconds:.0f}",
        "seconds": f"{clock.seconds:.2f}",
        "all_reduce_seconds": f"{count_waited():.2f}",
        "weights": report.digest[:16],
    }
    return " ".join(f"{name}={value}" for name, value in facts.items())


def watch_types(model: torch.nn.Module) -> set[str]:
    """Return what a model will have been trained in, by the names of torch's types: autocast begins in its forward."""
    types: set[str] = set()

    def look(*_: object) -> None:
        if model.training:
            types.add(str(read_autocast() or torch.float32).removeprefix("torch."))

    next(model.children()).register_forward_pre_hook(look)
    return types


def count_waited() -> float:
    """Return the seconds in which gradients were waited for, as what exchanges them has counted (gradients.py)."""
    return SEEN.waited or 0.0


def read_backend(file: Path) -> str:
    """Return the backend that the image was planned for; empty outside an image."""
    return str(json.loads(file.read_text())["backend"]) if file.is_file() else ""


def gather(mine: Any) -> list[Any]:
    """Return what all ranks have, in their order, on every rank."""
    if not dist.is_initialized():
        return [mine]
    theirs: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(theirs, mine)
    return theirs
