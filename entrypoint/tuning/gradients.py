"""How ranks exchange gradients: what the user may choose, read alike at the start and in each rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from entrypoint.errors import Refusal

VARIABLE = "MULTINODE_GRADIENTS"
FLOAT32, BF16, INT8, POWERSGD, OFF = "float32", "bf16", "int8", "powersgd", "off"
# What is sent of each, in the words of --explain. "" is what nobody has chosen.
SENT = {
    "": "rows of embeddings that are not zero; the rest as bfloat16 where all ranks compute in it, else as it is",
    FLOAT32: "rows of embeddings that are not zero; the rest as it is",
    BF16: "rows of embeddings that are not zero; the rest as bfloat16",
    INT8: "rows of embeddings that are not zero; the rest as 8 bits, whose error goes into the next step",
    POWERSGD: "rows of embeddings that are not zero; the rest as products of narrow matrices, whose error goes on",
    OFF: "all, by DistributedDataParallel itself",
}
MOST_RANK = 64
REMEDY = f"export {VARIABLE}={FLOAT32}, {BF16}, {INT8}, {POWERSGD}:RANK such as {POWERSGD}:4, {OFF}, or unset it"


class Choice(NamedTuple):
    """A name of SENT, and the rank of the matrices of powersgd, else 0."""

    name: str
    rank: int = 0


def read_choice(environ: Mapping[str, str]) -> Choice:
    """Return how gradients are exchanged; raise Refusal for a value that is none of SENT."""
    text = environ.get(VARIABLE, "").strip()
    name, _, rank = text.partition(":")
    if name == POWERSGD and rank.isascii() and rank.isdigit() and 1 <= int(rank) <= MOST_RANK:
        return Choice(name, int(rank))
    if text in SENT and text != POWERSGD:
        return Choice(text)
    raise Refusal(f"{VARIABLE} has a value that is not known", repr(text), REMEDY)
