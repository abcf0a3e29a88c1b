"""The flags of `smoke`: its own, and its defaults for those of the installed release's Trainer."""

# No postponed annotations in this file: HfArgumentParser reads those of a dataclass.
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

SEED = 20240229

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


@dataclass
class SmokeArguments:
    """What the job checks besides training."""

    world_size: str = field(
        default="",
        metadata={"help": "Number of ranks to insist on, 2 or 1:4. Default: what the launcher says it started."},
    )


def known_flags(fields: Collection[str], accelerate: str) -> frozenset[str]:
    """Return the fields of TrainingArguments that may be set with this release of accelerate.

    transformers 4.46 and later refuse a data_seed without accelerate 1.1.0 (training_args.py), which 4.46.0 and 4.46.1
    do not require.
    """
    numbers = [int(part) for part in accelerate.split(".")[:2] if part.isdigit()]
    return frozenset(fields) - (frozenset(("data_seed",)) if numbers < [1, 1] else frozenset())


def default_flags(output: str, backend: str, known: Collection[str]) -> Iterator[str]:
    """Yield the defaults as words of a command line; known: the flags that may be set; backend may be empty."""
    yield from ("--output_dir", output)
    for name, value in DEFAULTS:
        if name in known:
            yield from (f"--{name}",) if value is None else (f"--{name}", value)
    if "use_cpu" not in known:
        yield "--no_cuda"
    if backend:
        yield from ("--ddp_backend" if "ddp_backend" in known else "--xpu_backend", backend)
