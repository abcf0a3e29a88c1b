"""The flags of `smoke`, and what it insists on: the size of the world, the backend, equal weights, a loss that fell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.reading import read_range, whole
from multinode_image.settings import SIZE
from multinode_image.tasks.aliases import list_names
from multinode_image.tasks.arguments import BATCH_SIZE
from multinode_image.tasks.defaults import OUTPUT_DIR
from multinode_image.world.table import find_launcher, read_world

SEED = 20240229

# A flag has the name that the installed release knows, and is left out where that knows none.
DEFAULTS = (
    ("use_cpu", None),
    ("max_steps", "80"),
    (BATCH_SIZE, "8"),
    ("learning_rate", "4e-3"),
    ("warmup_steps", "10"),
    ("seed", str(SEED % 10_000)),
    ("save_strategy", "no"),
    ("logging_strategy", "no"),
    ("report_to", "none"),
    ("disable_tqdm", "True"),
    ("dataloader_drop_last", "True"),
    ("dataloader_pin_memory", "False"),
    ("ddp_find_unused_parameters", "False"),
)


def default_flags(output: str, backend: str, known: Collection[str]) -> Iterator[str]:
    """Yield the defaults as words of a command line; known: those of the release; backend may be empty."""
    of_group = (("ddp_backend", backend),) if backend else ()
    for flag, value in ((OUTPUT_DIR, output), *DEFAULTS, *of_group):
        for name in [alias for alias in list_names(flag) if alias in known][:1]:
            yield from (f"--{name}",) if value is None else (f"--{name}", value)


# Positions alone, without reading the words, cannot bring the loss below log(28) = 3.33, the entropy of where an
# answer starts; half of the first loss (about 3.5) is out of reach for a model that has not learned to read.
MARGIN = 0.5


class Failed(Exception):
    """A check failed, on every rank in the same way; with a remedy the exit code is 2."""

    def __init__(self, fact: str, remedy: str = "") -> None:
        """Keep what is wrong, with its numbers, and what to type instead."""
        super().__init__(f"{fact}\n  try: {remedy}" if remedy else fact)
        self.code = 2 if remedy else 1


class Report(NamedTuple):
    """What one rank reports to the others: a hash of its weights, and its loss before and after the training."""

    digest: str
    before: float
    after: float


def launched_size(environ: Mapping[str, str]) -> int:
    """Return how many ranks the launcher says it started; accelerate refuses a backend where it is one."""
    try:
        sizes = read_world(environ, find_launcher(environ), None).sizes
    except Refusal:
        sizes = (1, 1)
    return max(1, sizes[1], whole(environ.get("WORLD_SIZE", "")) or 0)


def asked_size(environ: Mapping[str, str]) -> str:
    """Return the size that was asked for, as `2`, `1:4` or `2:`: by the entrypoint or the launcher."""
    return environ.get(SIZE, "") or str(launched_size(environ))


def check_flags(left: Sequence[str]) -> None:
    """Raise Failed if words are left over when the Trainer has taken its flags, as smoke has none of its own."""
    if left:
        remedy = "flags of TrainingArguments, as --bf16 --max_steps 200"
        raise Failed(f"not a flag of the Trainer: {' '.join(left)}", remedy)


def check_world(size: int, asked: Sequence[str]) -> None:
    """Raise Failed unless there are as many ranks as were asked for; asked: of every rank, for nodes may disagree."""
    for text in sorted(set(asked)):
        low, high = read_range(text) or (1, None)  # the entrypoint refuses what is none
        if size < low or (high is not None and size > high):
            asked_for = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
            by = f", as rank {asked.index(text)} was told" if len(set(asked)) > 1 else ""
            word = "smaller" if size < low else "larger"
            raise Failed(f"the world is {word} than asked for: {size} instead of {asked_for}{by}")


def check_jobs(names: Sequence[str]) -> None:
    """Raise Failed unless all ranks, in their order, are of one job: two that share a node and a port may have met."""
    if len(set(names)) > 1:
        jobs = ", ".join(f"rank {rank}: {name or 'no name'}" for rank, name in enumerate(names))
        remedy = "export another MASTER_PORT for one of the jobs, or another PET_RDZV_ID"
        raise Failed(f"the ranks are of different jobs, {jobs}; {remedy}")


def check_used_backend(actual: str, planned: str) -> None:
    """Raise Failed unless the backend is the one that the image was built for."""
    if planned and actual not in ("none", planned):
        raise Failed(f"the backend is {actual}, planned was {planned}")


def check_reports(reports: Sequence[Report]) -> None:
    """Raise Failed unless all ranks ended with the same weights, and the loss fell far enough."""
    if len({report.digest for report in reports}) > 1:
        digests = ", ".join(f"rank {rank}: {report.digest[:12]}" for rank, report in enumerate(reports))
        raise Failed(f"the weights differ between ranks: {digests}")
    before, after = reports[0].before, reports[0].after
    if not after < before * MARGIN:
        raise Failed(f"the loss went from {before:.4f} to {after:.4f}, it had to fall below {before * MARGIN:.4f}")
