"""What the project holds itself to: a table of figures with their limits, and which of them are missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figures, written

MB = 1_000_000
# What a container that trains alone may use.
LIMITS = {
    "unlimited": "no limit", "half": "quota of half the cores", "quarter": "quota of a quarter of the cores",
    "three quarters": "quota of three quarters of the cores", "half set": "a set of half the cores",
}  # fmt: skip
KEPT, MISSED, SHOWN, UNKNOWN = "kept", "missed", "shown", "not measured"


@dataclass(frozen=True)
class Promise:
    """One promise: a figure, or its ratio to another (`against`), with a limit; unit: ratio, bytes or s.

    Without a limit the figure is shown only. `amx` says that the limit is one for processors with AMX (True) or without
    (False); on the others it is shown. `how` says how it is measured; `in_readme` are the few that the README has.
    """

    part: str
    what: str
    figure: str
    how: str
    against: str = ""
    most: float | None = None
    least: float | None = None
    unit: str = "ratio"
    in_readme: bool = False
    amx: bool | None = None

    @property
    def limit(self) -> str:
        """Write the limit, and for which processors it is one."""
        return self.bound if self.amx is None else f"{self.bound} {'with' if self.amx else 'without'} AMX"

    @property
    def bound(self) -> str:
        """Write the limit alone."""
        if self.most is not None:
            return f"≤ {written(self.most, self.unit)}"
        return f"≥ {written(self.least, self.unit)}" if self.least is not None else "—"

    @property
    def is_strict(self) -> bool:
        """Return whether missing it is a failure; seconds depend on the machine and are reported."""
        return self.unit != "s"


@dataclass(frozen=True)
class Verdict:
    """What became of a promise: the value that was measured, and kept, missed, shown or not measured."""

    promise: Promise
    value: float | None
    state: str

    @property
    def fails(self) -> bool:
        """Return whether the benchmark ends with a code other than zero for it."""
        return self.promise.is_strict and self.state in (MISSED, UNKNOWN)

    @property
    def text(self) -> str:
        """Write the value; with one digit more where a value beyond the limit would look like the limit."""
        if self.value is None:
            return "—"
        usual = written(self.value, self.promise.unit)
        looks_kept = self.state == MISSED and self.promise.bound.endswith(f" {usual}")
        return written(self.value, self.promise.unit, more=1) if looks_kept else usual


PROMISES: Sequence[Promise] = (
    Promise("build", "time to build and push, against the expert's Dockerfile", "ours first pushed",
        "from downloaded wheels and the same Debian base to an empty registry on loopback, without bytecode",
        "expert first pushed", most=0.12),
    Promise("build", "time to rebuild for another transformers and push, against the expert's Dockerfile",
        "ours next pushed", "the second build of the same run, pushed to the same registry", "expert next pushed",
        most=0.05),
    Promise("build", "bytes sent by the push for another transformers", "ours next sent",
        "what the registry has more afterwards", most=8 * MB, unit="bytes"),
    Promise("build", "from nothing to a loaded image", "from nothing",
        "an empty store; index and mirror of this machine", most=45, unit="s", in_readme=True),
    Promise("build", "a build with nothing to do", "nothing to do", "the same command again, loaded already", most=0.8,
        unit="s"),
    Promise("build", "`--help`", "help", "the whole process", most=0.25, unit="s"),
    Promise("build", "`plan`", "plan", "the whole process", most=0.3, unit="s"),
    Promise("build", "memory of the builder", "memory",
        "the peak of it and its children, shared pages counted once, from nothing", most=400 * MB, unit="bytes"),
    Promise("image", "image for all text tasks with bytecode, compressed", "ours with bytecode",
        "the layers as they are pushed", most=340 * MB, unit="bytes", in_readme=True),
    Promise("image", "size of that image, against the expert's Dockerfile without bytecode", "ours with bytecode",
        "that image as it is pushed by Docker", "expert without bytecode", most=0.53),
    Promise("start", "time to the first step of a training, against the same image without bytecode",
        "step with bytecode", "from the call of Docker until `smoke` says that its first step is done",
        "step without bytecode", most=0.50),
    Promise("start", "time to the first step of a training, against the Dockerfile's image with bytecode",
        "step with bytecode", "that image runs the same training without the entrypoint", "step expert", most=0.90),
    Promise("start", "what the entrypoint adds to the start of a command", "added",
        "`true` through it and without it, in turn", most=0.1, unit="s"),
    Promise("train", "speed of `qa --do_train` on lengths like SQuAD's, against the guide's command",
        "squad ours speed", "the real run_qa.py, 12 x 384, a distilbert-sized model; samples per second",
        "squad guide speed", least=2.0, in_readme=True),
    Promise("train", "speed of `glue` on lengths like QQP's, against the guide's command", "qqp ours speed",
        "the real run_glue.py, 32 x 128", "qqp guide speed", least=3.0),
    Promise("train", "the same in two containers of a core each", "qqp ours speed in two",
        "two epochs, so that each has as many steps as one container alone", "qqp guide speed in two", least=2.5),
    Promise("train", "speed of `glue` on lengths like MRPC's, against the guide's command", "mrpc ours speed",
        "the real run_glue.py, 32 x 128", "mrpc guide speed"),
    Promise("train", "F1 of a small model after `qa --do_train`, against that of the guide's command",
        "questions ours result", "toy questions that can be learned, medians of three seeds", "questions guide result",
        least=0.98, in_readme=True),
    Promise("train", "accuracy of a small model after `glue`, against that of the guide's command",
        "pairs ours result", "toy pairs that can be learned, medians of three seeds", "pairs guide result", least=0.98),
    Promise("train", "speed of `smoke --bf16` on a processor without units for bf16, against float32",
        "without units float32", "seconds of 2,000 steps; units that are there are hidden", "without units asked",
        least=0.98),
    Promise("plain", "speed of `qa --do_train` in float32 on lengths like SQuAD's, against the guide's command",
        "squad ours speed", "the real run_qa.py, 12 x 384, a distilbert-sized model; samples per second",
        "squad guide speed", least=2.0, in_readme=True),
    Promise("plain", "speed of `glue` in float32 on lengths like QQP's, against the guide's command", "qqp ours speed",
        "the real run_glue.py, 32 x 128", "qqp guide speed", least=3.0),
    Promise("plain", "the same in two containers of a core each", "qqp ours speed in two",
        "two epochs, so that each has as many steps as one container alone", "qqp guide speed in two", least=2.5),
    Promise("plain", "speed of a small real model on texts of like length, against texts in any order",
        "texts ours speed", "all-MiniLM-L6-v2 and descriptions of Debian packages by the real run_glue.py, 32 texts",
        "texts padded speed", least=1.25),
    Promise("plain", "what a core computes in a step, against the products of matrices in it alone", "step rate",
        "a distilbert-sized model, 8 x 128, float32; operations in a second of processor time, in turn",
        "products rate", least=0.8),
    Promise("example", "accuracy where two nodes send gradients as by default, against all numbers in float32",
        "default gradients accuracy", "after an epoch, medians of three seeds", "float32 gradients accuracy",
        least=0.99),
    Promise("example", "F1 where two nodes send gradients as by default, against all numbers in float32",
        "default gradients F1", "toy questions, medians of three seeds", "float32 gradients F1", least=0.99),
    Promise("example", "speed of `glue` in two containers with 1 Gbit/s, against no limit", "qqp 1gbit",
        "a token bucket on both interfaces; the real run_glue.py, 32 x 128, lengths like QQP's", "qqp unlimited",
        least=0.85),
    *(
        Promise("example", f"accuracy after an epoch, against the guide's command, {nodes}", f"ours {key} accuracy",
            "all-MiniLM-L6-v2 and descriptions of Debian packages by the real run_glue.py", f"guide {key} accuracy",
            least=0.97)
        for key, nodes in (("one", "one node"), ("two 1gbit", "two nodes, 1 Gbit/s"))
    ),
    Promise("example", "how soon two nodes with 1 Gbit/s reach an accuracy, against the guide's command",
        "guide two 1gbit to goal", "half of the texts right of 1,000 that are not trained on; the start counts",
        "ours two 1gbit to goal", least=3.0, in_readme=True),
    Promise("settings", "speed of two containers together, against two apart, 12 x 384", "apart 12x384",
        "a core each, a distilbert-sized model in bfloat16; seconds of a step", "together 12x384", least=0.95),
    Promise("settings", "speed of two containers together, against two apart, 8 x 128", "apart 8x128",
        "smaller batches: less to compute for the same gradients", "together 8x128"),
    Promise("settings", "speed of `smoke` under a quota of half the cores, tuned against untuned",
        "smoke half untuned", "seconds of 80 steps: with the entrypoint, and its script alone", "smoke half tuned",
        least=2.0),
    Promise("settings", "speed of a distilbert-sized model under that quota, tuned against untuned",
        "distilbert half untuned", "seconds of a step, 8 x 128, bfloat16", "distilbert half tuned", least=1.4,
        amx=True),
    *(
        Promise("settings", f"speed of that model, tuned against the guide's variables, {limit}",
            f"distilbert {scene} guide", "seconds of a step, 8 x 128, bfloat16", f"distilbert {scene} tuned",
            least=0.98)
        for scene, limit in LIMITS.items()
    ),
    Promise("settings", "speed of bf16 on a processor with units for it, against float32", "float32 unlimited tuned",
        "a distilbert-sized model; seconds of a step, 8 x 128", "distilbert unlimited tuned", least=1.0),
    *(
        Promise("network", f"speed of two containers together, against two apart, 1 Gbit/s, {dtype}",
            f"{dtype} apart 1gbit",
            "a core each, a distilbert-sized model, 8 x 128; a token bucket on both interfaces; a step of each in turn",
            f"{dtype} default 1gbit", least=least, amx=amx)
        for dtype, least, amx in (("float32", 0.88, None), ("bfloat16", 0.75, True), ("bfloat16", 0.85, False))
    ),
    *(
        Promise("network-plain", f"speed of two containers together, against two apart, 1 Gbit/s, {shape}",
            f"{kind} apart 1gbit", "float32, without units for bf16; a core each; a step of each in turn",
            f"{kind} default 1gbit", least=0.88)
        for kind, shape in (("float32", "8 x 128"), ("long float32", "12 x 384"))
    ),
    *(
        Promise("network-plain", f"speed of what is sent by default, against plain DDP, {limit}, {shape}",
            f"{kind} off {rate}", "float32, without units for bf16; a step of each in turn", f"{kind} default {rate}",
            least=0.98)
        for kind, shape in (("float32", "8 x 128"), ("long float32", "12 x 384"), ("four float32", "four containers"))
        for rate, limit in (("unlimited", "no limit"), ("1gbit", "1 Gbit/s"))
    ),
    *(
        Promise("network",
            f"speed of what is sent by default, against plain DistributedDataParallel, no limit, {dtype}",
            f"{dtype} off unlimited", "a step of each in turn", f"{dtype} default unlimited", least=0.98)
        for dtype in ("float32", "bfloat16")
    ),
)  # fmt: skip


def judge(figures: Mapping[str, Figures]) -> list[Verdict]:
    """Return what became of the promises of the parts that were measured."""
    return [verdict(promise, figures[promise.part]) for promise in PROMISES if promise.part in figures]


def verdict(promise: Promise, figures: Figures) -> Verdict:
    """Return what became of a promise."""
    value = figures.ratio(promise.figure, promise.against) if promise.against else figures.median(promise.figure)
    if value is None:
        return Verdict(promise, None, UNKNOWN if promise.bound != "—" else SHOWN)
    if promise.bound == "—" or (promise.amx is not None and promise.amx != figures.has_amx):
        return Verdict(promise, value, SHOWN)
    is_high = promise.most is not None and value > promise.most
    is_low = promise.least is not None and value < promise.least
    return Verdict(promise, value, MISSED if is_high or is_low else KEPT)
