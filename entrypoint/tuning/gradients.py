"""How ranks exchange gradients: what the user may choose, read alike at the start and in each rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from entrypoint.errors import Refusal

VARIABLE = "MULTINODE_GRADIENTS"
FLOAT32, BF16, INT8, POWERSGD, OFF = "float32", "bf16", "int8", "powersgd", "off"
OWN = "own"  # a hook of the script's, which nobody chooses here
# What is sent of each, in the words of --explain. "" is what nobody has chosen.
SENT = {
    "": "rows of embeddings that are not zero; the rest as bfloat16 where all ranks compute in it, else as it is",
    FLOAT32: "rows of embeddings that are not zero; the rest as it is",
    BF16: "rows of embeddings that are not zero; the rest as bfloat16",
    INT8: "rows of embeddings that are not zero; the rest as 8 bits, whose error goes into the next step",
    POWERSGD: "rows of embeddings that are not zero; the rest as products of narrow matrices, whose error goes on",
    OFF: "all, by DistributedDataParallel itself",
}
# What takes something from gradients that goes into the next step.
REMEMBERING = (INT8, POWERSGD)
MOST_RANK = 64
MEGABYTE = 1_000_000
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


def describe_sent(name: str, tables: int, sent: int, usual: int) -> str:
    """Return what a rank sends in a step; empty where it is little, and what DistributedDataParallel sends.

    tables: how many embeddings are sent by their rows; sent, usual: bytes.
    """
    size, instead = format_bytes(sent), format_bytes(usual)
    if size == instead and usual < MEGABYTE:
        return ""
    rows = f", of {tables} embedding{'s'[: tables > 1]} the rows that are not zero" if tables else ""
    kept = "; what rounding takes goes into the next step, from zero at each start" if name in REMEMBERING else ""
    compared = "" if size == instead else f" instead of {instead}"
    return f"gradients are sent as {name}{rows}: {size} a step{compared}{kept} ({VARIABLE})"


def format_bytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / MEGABYTE:.1f} MB" if count >= MEGABYTE else f"{count / 1000:.1f} kB"
