"""Which tables a part has: titles, columns, and for each cell the name of a figure, or two names for their ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures.promises import LIMITS
from benchmarks.network.measure import OPTIONS

Cell = str | tuple[str, str] | None


@dataclass(frozen=True)
class Row:
    """A title and its cells; a star in both stands for the rest of a figure's name."""

    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table of a page."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def _side(title: str, figure: str) -> Row:
    """Return a row of the comparison with Dockerfiles: every side, and ours in it."""
    ours = f"ours {figure}"
    cells: list[Cell] = [ours]
    for side in ("expert", "guide", "expert buildx"):
        cells += [f"{side} {figure}", (ours, f"{side} {figure}")]
    return Row(title, tuple(cells))


def _ratio(one: str, other: str) -> tuple[Cell, ...]:
    """Return the cells of two figures and their ratio."""
    return one, other, (one, other)


def _scene(title: str, name: str) -> Row:
    """Return a row of a limit: every mode, and how much faster the tuned one is than each other."""
    modes = [f"{name} {mode}" for mode in ("tuned", "untuned", "guide")]
    return Row(title, (*modes, (modes[1], modes[0]), (modes[2], modes[0])))


def _script(title: str, data: str, more: str = "") -> Row:
    """Return a row of a script: all sides, and how much faster two of them are than the guide's."""
    guide, padded, ours = (f"{data} {side} speed{more}" for side in ("guide", "padded", "ours"))
    return Row(title, (guide, padded, ours, (padded, guide), (ours, guide)))


def _pair(title: str, apart: str, name: str) -> Row:
    """Return a row of two containers: apart, together, and the efficiency."""
    return Row(title, _ratio(f"apart {apart}", f"together {name}"))


AGAINST = (
    "multinode", "expert's Dockerfile", "ratio", "guide's Dockerfile", "ratio", "expert's, buildx", "ratio",
)  # fmt: skip
BUILD = (
    Table(
        "Against Dockerfiles, from downloaded parts", AGAINST,
        (
            _side("built", "first built"),
            _side("built and pushed", "first pushed"),
            _side("rebuilt for another transformers", "next built"),
            _side("rebuilt and pushed", "next pushed"),
            _side("bytes sent by that push", "next sent"),
            _side("image, compressed", "first size"),
            _side("image, unpacked", "unpacked"),
        ),
    ),
    Table(
        "The build by itself", ("multinode",),
        (
            Row("from nothing to a loaded image", ("from nothing",)), Row("nothing to do", ("nothing to do",)),
            Row("`--help`", ("help",)), Row("`plan`", ("plan",)), Row("memory at its peak", ("memory",)),
        ),
    ),
)  # fmt: skip
IMAGE = (
    Table(
        "Image for all text tasks", ("multinode", "expert's Dockerfile", "ratio"),
        tuple(
            Row(f"{size}, {kind}", _ratio(f"ours {way}{kind}", f"expert {way}{kind}"))
            for size, way in (("compressed", ""), ("unpacked", "unpacked "))
            for kind in ("with bytecode", "without bytecode")
        ),
    ),
    Table(
        "Layers, compressed", ("with bytecode", "without bytecode"),
        (Row("*", ("layer * with bytecode", "layer * without bytecode")),),
    ),
)  # fmt: skip
START = (
    Table(
        "From the call of Docker to the first step of `smoke`", ("seconds", "multinode with bytecode in it"),
        (
            Row("multinode, with bytecode", ("step with bytecode", None)),
            Row("multinode, without", ("step without bytecode", ("step with bytecode", "step without bytecode"))),
            Row("the Dockerfile's image, with bytecode", ("step expert", ("step with bytecode", "step expert"))),
        ),
    ),
    Table(
        "Start of a command", ("with the entrypoint", "without", "ratio"),
        (
            Row("`true` in a running container", _ratio("ours", "bypassed")),
            Row("the same, in processor time", ("ours processor", "bypassed processor", None)),
            Row("the same, against an empty Python", _ratio("ours processor", "python processor")),
            Row("`true` as a container's only command", _ratio("container ours", "container bypassed")),
        ),
    ),
)  # fmt: skip
MODES = ("tuned", "untuned", "guide's variables", "untuned / tuned", "guide's / tuned")
SPEED = ("guide's command", "padded to the longest", "of like length, too", "padded / guide's", "ours / guide's")
TRAIN = (
    Table(
        "The real scripts, samples a second", SPEED,
        (
            _script("`qa --do_train`, lengths like SQuAD's, 12 x 384", "squad"),
            _script("`glue`, lengths like MRPC's, 32 x 128", "mrpc"),
            _script("`glue`, lengths like QQP's, 32 x 128", "qqp"),
            _script("the same in two containers of a core each", "qqp", " in two"),
        ),
    ),
    Table(
        "What a small model has learned, medians of three seeds", ("guide's command", "ours", "ours / guide's"),
        tuple(
            Row(title, (f"{data} guide {what}", f"{data} ours {what}", (f"{data} ours {what}", f"{data} guide {what}")))
            for title, data, what in (
                ("toy questions, F1", "questions", "result"), ("loss", "questions", "loss"),
                ("toy pairs, accuracy", "pairs", "result"), ("loss", "pairs", "loss"),
            )
        ),
    ),
    Table(
        "`smoke` without units for bf16, seconds of 2,000 steps",
        ("float32", "`--bf16`", "emulated", "emulated / float32"),
        (
            Row(
                "both cores",
                ("without units float32", "without units asked", "without units emulated",
                 ("without units emulated", "without units float32")),
            ),
        ),
    ),
)  # fmt: skip
SETTINGS = (
    Table(
        "`smoke`, seconds of 80 steps", MODES,
        tuple(_scene(title, f"smoke {name}") for name, title in LIMITS.items()),
    ),
    Table(
        "Distilbert-sized model, 8 x 128, bfloat16, seconds of a step", MODES,
        tuple(_scene(title, f"distilbert {name}") for name, title in LIMITS.items()),
    ),
    Table(
        "The same in float32", MODES,
        tuple(_scene(LIMITS[name], f"float32 {name}") for name in ("unlimited", "half", "half set")),
    ),
    Table(
        "Two containers of a core each, seconds of a step", ("apart", "together", "efficiency"),
        (
            _pair("12 x 384", "12x384", "12x384"),
            _pair("8 x 128", "8x128", "8x128"),
            _pair("torch 2.4.0, 8 x 128, oneCCL", "8x128 ccl", "8x128 ccl"),
            _pair("torch 2.4.0, 8 x 128, gloo", "8x128 gloo", "8x128 gloo"),
        ),
    ),
    Table(
        "Shares and throughput", ("measured",),
        (
            Row("share of a step that the other rank costs, 12 x 384", ("share 12x384",)),
            Row("that share, 8 x 128", ("share 8x128",)),
            Row("seconds of a step of the slower one alone, 12 x 384", ("slower 12x384",)),
            Row("seconds of a step of the slower one alone, 8 x 128", ("slower 8x128",)),
            Row("one container with both cores, 8 x 128", ("one container 8x128",)),
            Row("two containers of a core each, 8 x 128", ("two containers 8x128",)),
        ),
    ),
)  # fmt: skip
PLAIN = (
    Table(
        "The real scripts in float32, samples a second", SPEED,
        (
            _script("`qa --do_train`, lengths like SQuAD's, 12 x 384", "squad"),
            _script("`glue`, lengths like QQP's, 32 x 128", "qqp"),
            _script("the same in two containers of a core each", "qqp", " in two"),
        ),
    ),
    Table(
        "The first training, samples a second", ("texts of like length", "in any order", "ratio"),
        (Row("all-MiniLM-L6-v2, batches of 32 descriptions", _ratio("texts ours speed", "texts padded speed")),),
    ),
    Table(
        "On one core in float32, products of matrices a second of processor time",
        ("in a step", "alone", "ratio"),
        (Row("DistilBERT's size, 8 x 128", _ratio("step rate", "products rate")),),
    ),
)  # fmt: skip
RATES = {"unlimited": "no limit", "10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s", "300mbit": "300 Mbit/s"}
NODES = {"one": "one node", "two unlimited": "two nodes", "two 1gbit": "two nodes, 1 Gbit/s"}
EXAMPLE = (
    Table(
        "One epoch of 3,072 texts in batches of 16 on each node: the guide's command, ours, and what ours is of it",
        ("accuracy", "ours", "", "50 % after", "ours", "", "the epoch", "ours", ""),
        tuple(
            Row(
                title,
                tuple(
                    cell
                    for figure in ("accuracy", "to goal", "seconds")
                    for cell in (
                        f"guide {nodes} {figure}", f"ours {nodes} {figure}",
                        (f"ours {nodes} {figure}", f"guide {nodes} {figure}"),
                    )
                ),
            )
            for nodes, title in NODES.items()
        ),
    ),
    Table(
        "What two nodes have learned by what is sent, medians of three seeds", ("float32", "by default"),
        (
            Row("accuracy after an epoch", ("float32 gradients accuracy", "default gradients accuracy")),
            Row("toy questions, F1", ("float32 gradients F1", "default gradients F1")),
        ),
    ),
    Table(
        "DistilBERT's size, `glue`, lengths like QQP's, two nodes of a core each, samples a second", ("ours",),
        tuple(Row(limit, (f"qqp {rate}",)) for rate, limit in RATES.items() if rate in ("unlimited", "1gbit")),
    ),
)  # fmt: skip
SENT = {
    "apart": "apart", "default": "what is sent by default", "off": "plain DDP", "bf16": "`bf16`", "int8": "`int8`",
}  # fmt: skip


def _sent(*kinds: str) -> tuple[Row, ...]:
    """Return the rows of each limit and choice: for each kind the seconds, and those apart against them."""
    few = ("apart", "default", "off")
    chosen = [(choice, rate) for rate in RATES for choice in SENT if rate == "300mbit" or choice in few]
    return tuple(
        Row(
            f"{RATES[rate]}: {SENT[choice]}",
            tuple(
                cell
                for kind in kinds
                for cell in (
                    f"{kind} {choice} {rate}",
                    None if choice == "apart" else (f"{kind} apart {rate}", f"{kind} {choice} {rate}"),
                )
            ),
        )
        for choice, rate in chosen
    )


def _told(option: str) -> Row:
    """Return the row of what DistributedDataParallel can be told: the default's seconds against those with it."""
    names = ((f"bfloat16 default {rate}", f"bfloat16 {option} {rate}") for rate in ("unlimited", "1gbit"))
    return Row(option, tuple(names))


NETWORK = (
    Table(
        "Two containers of a core each, 8 x 128, seconds of a step, and apart / together",
        ("float32", "efficiency", "bfloat16", "efficiency"), _sent("float32", "bfloat16"),
    ),
    Table("Four containers of half a core each", ("bfloat16", "efficiency"), _sent("four bfloat16")),
    Table(
        "What DistributedDataParallel can be told, two containers in bfloat16: the default's seconds / those with it",
        ("no limit", "1 Gbit/s"),
        tuple(map(_told, OPTIONS)),
    ),
)  # fmt: skip
FEW = {rate: limit for rate, limit in RATES.items() if rate in ("unlimited", "1gbit")}


def _sent_in_float32(kind: str) -> tuple[Row, ...]:
    """Return the rows of a kind that has few limits."""
    return tuple(
        Row(
            f"{limit}: {SENT[choice]}",
            (
                f"{kind} {choice} {rate}",
                None if choice == "apart" else (f"{kind} apart {rate}", f"{kind} {choice} {rate}"),
            ),
        )
        for rate, limit in FEW.items()
        for choice in ("apart", "default", "off")
    )


NETWORK_PLAIN = (
    Table(
        "Two containers of a core each, 8 x 128, seconds of a step, and apart / together",
        ("float32", "efficiency"), _sent("float32"),
    ),
    Table("The same, 12 x 384", ("float32", "efficiency"), _sent_in_float32("long float32")),
    Table("Four containers of half a core each, 8 x 128", ("float32", "efficiency"), _sent_in_float32("four float32")),
)  # fmt: skip
STORE = (
    Table(
        "Releases of transformers on one torch in one store", ("disk", "seconds of all builds"),
        tuple(Row(str(count), (f"disk of {count}", f"seconds of {count}")) for count in (1, 10, 50)),
    ),
    Table(
        "A further release", ("measured",),
        (
            Row("disk", ("disk of a further release",)), Row("seconds", ("seconds of a further release",)),
            Row("its new layers, compressed", ("new layers of a further release",)),
        ),
    ),
)  # fmt: skip
TABLES: Mapping[str, Sequence[Table]] = {
    "build": BUILD, "image": IMAGE, "start": START, "train": TRAIN, "plain": PLAIN, "settings": SETTINGS,
    "example": EXAMPLE, "network": NETWORK, "network-plain": NETWORK_PLAIN, "store": STORE,
}  # fmt: skip
