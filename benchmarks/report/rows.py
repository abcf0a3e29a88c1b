"""Which tables a part has: each figure in one cell, by the template of its row and the word of its column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.promises import LIMITS


@dataclass(frozen=True)
class Table:
    """A table of a page: columns and rows with their titles.

    `{}` in the key of a row stands for that of a column: together they are the name of a figure. A star stands for the
    rest of a figure's name, for every figure that has one.
    """

    title: str
    columns: Mapping[str, str]
    rows: Mapping[str, str]


RATES = {"unlimited": "no limit", "10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s", "300mbit": "300 Mbit/s"}
NODES = {"one": "one node", "two unlimited": "two nodes", "two 1gbit": "two nodes, 1 Gbit/s"}
ONE = {"": "measured"}
MODES = {"tuned": "tuned", "untuned": "untuned", "guide": "guide's variables"}
SIDES = {"ours": "ours", "guide": "guide's command"}
SPEED = {"ours": "of like length, too", "padded": "padded to the longest", "guide": "guide's command"}
SENT = {
    "apart": "apart", "default": "what is sent by default", "off": "plain DDP", "bf16": "`bf16`", "int8": "`int8`",
}  # fmt: skip
SCRIPTS = {
    "squad {} speed": "`qa --do_train`, lengths like SQuAD's, 12 x 384",
    "mrpc {} speed": "`glue`, lengths like MRPC's, 32 x 128",
    "qqp {} speed": "`glue`, lengths like QQP's, 32 x 128",
    "qqp {} speed in two": "the same in two containers of a core each",
}


def _limited(title: str, kind: str) -> Table:
    """Return the table of a kind of trainings by what they send, under each limit of the network."""
    return Table(f"{title}, seconds of a step", SENT, {f"{kind} {{}} {rate}": limit for rate, limit in RATES.items()})


TABLES: Mapping[str, Sequence[Table]] = {
    "build": (
        Table(
            "Against Dockerfiles, from downloaded parts",
            {"ours": "multinode", "expert": "expert's Dockerfile", "guide": "guide's Dockerfile"},
            {
                "{} first built": "built", "{} first pushed": "built and pushed",
                "{} next built": "rebuilt for another transformers", "{} next pushed": "rebuilt and pushed",
                "{} next sent": "bytes sent by that push", "{} first size": "image, compressed",
                "{} unpacked": "image, unpacked",
            },
        ),
        Table(
            "The build by itself", ONE,
            {
                "from nothing": "from nothing to a loaded image", "nothing to do": "nothing to do", "help": "`--help`",
                "plan": "`plan`", "memory": "memory at its peak",
            },
        ),
    ),
    "image": (
        Table(
            "Image for all text tasks", {"ours": "multinode", "expert": "expert's Dockerfile"},
            {
                f"{{}} {unpacked}{kind}": f"{title}, {kind}"
                for unpacked, title in (("", "compressed"), ("unpacked ", "unpacked"))
                for kind in ("with bytecode", "without bytecode")
            },
        ),
        Table(
            "Layers, compressed", {"without bytecode": "without bytecode", "with bytecode": "with bytecode"},
            {"layer * {}": "*"},
        ),
    ),
    "start": (
        Table(
            "From the call of Docker to the first step of `smoke`", ONE,
            {
                "step with bytecode": "multinode, with bytecode", "step without bytecode": "multinode, without",
                "step expert": "the Dockerfile's image, with bytecode",
            },
        ),
        Table(
            "Start of a command",
            {"bypassed": "without the entrypoint", "ours": "with it", "python": "an empty Python"},
            {
                "{}": "`true` in a running container", "{} processor": "the same, in processor time",
                "container {}": "`true` as a container's only command",
            },
        ),
    ),
    "train": (
        Table("The real scripts, samples a second", SPEED, SCRIPTS),
        Table(
            "What a small model has learned, medians of three seeds", SIDES,
            {
                "questions {} result": "toy questions, F1", "questions {} loss": "loss of that",
                "pairs {} result": "toy pairs, accuracy", "pairs {} loss": "loss of that one",
            },
        ),
        Table(
            "`smoke` without units for bf16, seconds of 2,000 steps",
            {"float32": "float32", "asked": "`--bf16`", "emulated": "emulated"}, {"without units {}": "both cores"},
        ),
    ),
    "plain": (
        Table("The real scripts in float32, samples a second", SPEED, SCRIPTS),
        Table(
            "The first training, samples a second", {"ours": "texts of like length", "padded": "in any order"},
            {"texts {} speed": "all-MiniLM-L6-v2, batches of 32 descriptions"},
        ),
        Table(
            "On one core in float32, products of matrices a second of processor time",
            {"step": "in a step", "products": "alone"}, {"{} rate": "DistilBERT's size, 8 x 128"},
        ),
    ),
    "example": (
        Table(
            "One epoch of 3,072 texts in batches of 16 on each node", SIDES,
            {
                f"{{}} {key} {figure}": f"{nodes}, {title}"
                for key, nodes in NODES.items()
                for figure, title in (("accuracy", "accuracy"), ("to goal", "50 % after"), ("seconds", "the epoch"))
            },
        ),
        Table(
            "What two nodes have learned by what is sent, medians of three seeds",
            {"default": "by default", "float32": "float32"},
            {"{} gradients accuracy": "accuracy after an epoch", "{} gradients F1": "toy questions, F1"},
        ),
        Table(
            "DistilBERT's size, `glue`, two nodes of a core each, samples a second",
            {"1gbit": "1 Gbit/s", "unlimited": "no limit"}, {"qqp {}": "lengths like QQP's"},
        ),
    ),
    "settings": (
        Table("`smoke`, seconds of 80 steps", MODES, {f"smoke {name} {{}}": limit for name, limit in LIMITS.items()}),
        Table(
            "Distilbert-sized model, 8 x 128, seconds of a step", MODES,
            {
                **{f"distilbert {name} {{}}": f"bfloat16, {limit}" for name, limit in LIMITS.items()},
                "float32 unlimited {}": "float32, no limit",
            },
        ),
        Table(
            "Two containers of a core each, seconds of a step", {"apart": "apart", "together": "together"},
            {"{} 12x384": "12 x 384", "{} 8x128": "8 x 128"},
        ),
        Table(
            "Share of a step that the other rank costs", ONE, {"share 12x384": "12 x 384", "share 8x128": "8 x 128"},
        ),
    ),
    "network": (
        _limited("Two containers of a core each, 8 x 128, float32", "float32"),
        _limited("The same in bfloat16", "bfloat16"),
        _limited("Four containers of half a core each, bfloat16", "four bfloat16"),
    ),
    "network-plain": (
        _limited("Two containers of a core each, 8 x 128", "float32"),
        _limited("The same, 12 x 384", "long float32"),
        _limited("Four containers of half a core each, 8 x 128", "four float32"),
    ),
}  # fmt: skip
