"""Train a tiny question-answering model on data made on the spot, and fail unless it was one training.

It needs no network and no data. Any flag of the Trainer is accepted (`smoke --bf16`, `smoke --max_steps 200`).
It says on stderr when all ranks have done their first step together, and prints one line on stdout when all is well,
one on stderr when not:

    smoke: first step done 8.1 s after the start
    smoke: passed: world_size=2 backend=gloo dtype=bfloat16 loss_before=3.4965 loss_after=0.0102 ...
    smoke: failed: <what is wrong, with the numbers>
"""

# No postponed annotations in this file: DDP looks at those of a communication hook while it runs.
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

# Set before transformers is imported, which reads them only then.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
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

SEED = 20240229
LENGTH = 32
WORDS = 256
CLS, SEP, OPENS, CLOSES, FIRST_WORD = 1, 2, 3, 4, 8

# Positions alone, without reading the words, cannot bring the loss below log(28) = 3.33, the entropy of where an
# answer starts; half of the first loss (about 3.5) is out of reach for a model that has not learned to read.
MARGIN = 0.5

# A flag that the installed release does not know is left out, so that one table serves all of them.
DEFAULTS = (
    ("use_cpu", None),
    ("max_steps", "80"),
    ("per_device_train_batch_size", "8"),
    ("learning_rate", "4e-3"),
    ("warmup_steps", "10"),
    ("seed", str(SEED % 10_000)),
    ("data_seed", str(SEED % 10_000)),
    ("save_strategy", "no"),
    ("logging_strategy", "no"),
    ("report_to", "none"),
    ("disable_tqdm", "True"),
    ("dataloader_drop_last", "True"),
    ("dataloader_pin_memory", "False"),
    ("ddp_find_unused_parameters", "False"),
)

# Where launchers write the size of the world; the largest counts, for a smaller one may be left over in a pod.
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


@dataclass
class SmokeArguments:
    """What the job checks besides training."""

    world_size: str = field(
        default="",
        metadata={"help": "Number of ranks to insist on, 2 or 1:4. Default: what the launcher says it started."},
    )


class Report(NamedTuple):
    """What one rank has to tell the others."""

    digest: str
    before: float
    after: float


class Failed(Exception):
    """A check did not hold; every rank raises it alike. The exit code is 2 for what the user typed."""

    def __init__(self, fact: str, code: int = 1) -> None:
        """Take what is wrong, with its numbers."""
        super().__init__(fact)
        self.code = code


class Questions(Dataset[dict[str, torch.Tensor]]):
    """Random words with two quotation marks among them; the answer is what stands between."""

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
        """Give one question as the model wants it."""
        return {
            "input_ids": self.words[index],
            "attention_mask": torch.ones(LENGTH, dtype=torch.long),
            "start_positions": self.starts[index],
            "end_positions": self.ends[index],
        }


class Clock(TrainerCallback):
    """Measure the training loop, and within it the time spent in all-reduce."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.trainer: Any = None
        self.began = self.seconds = self.reducing = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Hook into DDP, which exists only from here on, and start the clock."""
        wrapped = getattr(self.trainer, "model_wrapped", None)
        if isinstance(wrapped, DistributedDataParallel):
            wrapped.register_comm_hook(None, self.reduce)
        self.began = time.perf_counter()

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Say when the first step is done: the gradients of all ranks are in it."""
        if state.global_step == 1 and state.is_world_process_zero:
            print(f"smoke: first step done {age():.1f} s after the start", file=sys.stderr, flush=True)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        self.seconds = time.perf_counter() - self.began

    def reduce(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Average one bucket of gradients and wait for it.

        Waiting costs no overlap, because the whole model fits in one bucket, and needs no callback from the
        backend's own thread, which is what hangs when a process group is taken down.
        """
        began = time.perf_counter()
        gradients = bucket.buffer().div_(dist.get_world_size())
        dist.all_reduce(gradients)
        self.reducing += time.perf_counter() - began
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(gradients)
        return done


def age() -> float:
    """Count the seconds since this process was started, the entrypoint's among them (proc(5), starttime)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def read_backend(file: Path) -> str:
    """Read which backend the image was planned for; empty outside an image."""
    return str(json.loads(file.read_text())["backend"]) if file.is_file() else ""


def default_flags(output: str, backend: str) -> Iterator[str]:
    """Spell the defaults as flags of the installed release."""
    known = TrainingArguments.__dataclass_fields__
    yield from ("--output_dir", output)
    for name, value in DEFAULTS:
        if name in known:
            yield from (f"--{name}",) if value is None else (f"--{name}", value)
    if "use_cpu" not in known:
        yield "--no_cuda"
    if backend:
        yield from ("--ddp_backend" if "ddp_backend" in known else "--xpu_backend", backend)


def launched_size(environ: Mapping[str, str]) -> int:
    """Read how many ranks the launcher says it started; accelerate refuses a backend where it is one."""
    return max([1, *(int(environ[name]) for name in SIZES if environ.get(name, "").isdigit())])


def asked_size(flag: str, environ: Mapping[str, str]) -> tuple[int, int]:
    """Tell the smallest and the largest world that is right: from `2`, from `1:4`, or from the launcher."""
    text = flag or environ.get("MULTINODE_WORLD_SIZE", "")
    if not text:
        text = str(launched_size(environ))
    low, _, high = text.partition(":")
    if not low.isdigit() or not (high or low).isdigit():
        raise Failed(f"world size must be a number or a range like 1:4, not {text!r}", 2)
    return int(low), int(high or low)


def check_world(size: int, asked: tuple[int, int]) -> None:
    """Insist on the number of ranks that was asked for."""
    low, high = asked
    if not low <= size <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        word = "smaller" if size < low else "larger"
        raise Failed(f"the world is {word} than asked for: {size} instead of {wanted}")


def check_backend(actual: str, planned: str) -> None:
    """Insist on the backend that the image was built for."""
    if planned and actual not in ("none", planned):
        raise Failed(f"the backend is {actual}, planned was {planned}")


def check_reports(reports: list[Report]) -> None:
    """Compare what all ranks ended with."""
    if len({report.digest for report in reports}) > 1:
        each = ", ".join(f"rank {rank}: {report.digest[:12]}" for rank, report in enumerate(reports))
        raise Failed(f"the weights differ between ranks: {each}")
    before, after = reports[0].before, reports[0].after
    if not after < before * MARGIN:
        raise Failed(f"the loss went from {before:.4f} to {after:.4f}, it had to fall below {before * MARGIN:.4f}")


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
    """Hash every weight, to the last bit."""
    digest = hashlib.sha256()
    for name, weights in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weights.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def gather(report: Report) -> list[Report]:
    """Tell every rank what every rank found."""
    if not dist.is_initialized():
        return [report]
    reports: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(reports, tuple(report))
    return [Report(*each) for each in reports]


def run(arguments: TrainingArguments, asked: str, planned: str) -> str:
    """Train, check, and sum up in one line."""
    # The Trainer's own idea of the world, for ranks that joined a group can still train apart.
    world = int(arguments.world_size)
    check_world(world, asked_size(asked, os.environ))
    backend = str(dist.get_backend()) if dist.is_initialized() else "none"
    check_backend(backend, planned)
    batch = int(arguments.per_device_train_batch_size) * int(arguments.gradient_accumulation_steps)
    model, clock = make_model(), Clock()
    before = measure_loss(model)
    trainer = Trainer(model=model, args=arguments, train_dataset=Questions(4096, SEED), callbacks=[clock])
    trainer.remove_callback(PrinterCallback)
    clock.trainer = trainer
    trainer.train()
    samples = int(trainer.state.global_step) * batch * world
    report = Report(digest_weights(model), before, measure_loss(model))
    check_reports(gather(report))
    facts = {
        "world_size": world,
        "backend": backend,
        "dtype": "bfloat16" if arguments.bf16 else "float32",
        "loss_before": f"{before:.4f}",
        "loss_after": f"{report.after:.4f}",
        "samples_per_second": f"{samples / clock.seconds:.0f}",
        "seconds": f"{clock.seconds:.2f}",
        "all_reduce_seconds": f"{clock.reducing:.2f}",
        "all_reduce_share": f"{clock.reducing / clock.seconds:.3f}",
        "weights": report.digest[:16],
    }
    return " ".join(f"{name}={value}" for name, value in facts.items())


def leave(code: int) -> NoReturn:
    """End all ranks together, without the destructors that hang or crash after good work.

    Taking gloo down right after a collective can deadlock under mpirun (torch 2.4) and oneCCL can abort, so nothing
    is taken down at once: the ranks meet, give each other's last messages time to arrive, and go.
    """
    backend = "none"
    if dist.is_initialized():
        backend = str(dist.get_backend())
        dist.barrier()
        time.sleep(0.5)
    sys.stdout.flush()
    sys.stderr.flush()
    if backend in ("none", "gloo"):
        os._exit(code)
    dist.destroy_process_group()
    sys.exit(code)


def main(argv: list[str]) -> NoReturn:
    """Run the job and end with 0 only if every check held."""
    output = tempfile.mkdtemp(prefix="smoke-")
    planned, rank, code = read_backend(Path(__file__).with_name("stack.json")), 0, 0
    try:
        parser = HfArgumentParser([SmokeArguments, TrainingArguments])
        flags = default_flags(output, planned if launched_size(os.environ) > 1 else "")
        smoke, arguments, *left = parser.parse_args_into_dataclasses([*flags, *argv], return_remaining_strings=True)
        rank = dist.get_rank() if dist.is_initialized() else 0
        if left[-1]:
            raise Failed(f"not a flag of the Trainer: {' '.join(left[-1])}; --world_size N is the only one of smoke", 2)
        planned = str(getattr(arguments, "ddp_backend", None) or planned)
        summary = run(arguments, smoke.world_size, planned)
        if rank == 0:
            print(f"smoke: passed: {summary}", flush=True)
    except Failed as failed:
        code = failed.code
        if rank == 0:
            print(f"smoke: failed: {failed}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(output, ignore_errors=True)
    leave(code)


if __name__ == "__main__":
    main(sys.argv[1:])
