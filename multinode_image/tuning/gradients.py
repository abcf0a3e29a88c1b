"""How ranks exchange gradients: what the user may choose, read alike at the start and in each rank."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal

VARIABLE = "MULTINODE_GRADIENTS"
FLOAT32, BF16, INT8, OFF = "float32", "bf16", "int8", "off"
SCRIPT_HOOK = "script"  # a hook of the script's, which nobody chooses here
# What is sent of each, in the words of --explain. "" is what nobody has chosen.
SENT = {
    "": "rows of embeddings that are not zero; the rest as bfloat16 where all ranks compute in it, else as it is",
    FLOAT32: "rows of embeddings that are not zero; the rest as it is",
    BF16: "rows of embeddings that are not zero; the rest as bfloat16",
    INT8: "rows of embeddings that are not zero; the rest as 8 bits, whose error goes into the next step",
    OFF: "all, by DistributedDataParallel itself",
}
MEGABYTE = 1_000_000
REMEDY = f"export {VARIABLE}={FLOAT32}, {BF16}, {INT8}, {OFF}, or unset it"


def read_choice(environ: Mapping[str, str]) -> str:
    """Return how gradients are exchanged, a name of SENT; raise Refusal for any other value."""
    text = environ.get(VARIABLE, "").strip()
    if text in SENT:
        return text
    raise Refusal(f"{VARIABLE} has a value that is not known", repr(text), REMEDY)


def describe_sent(name: str, tables: int, sent: int, usual: int) -> str:
    """Return what a rank sends in a step; empty where it is little, and what DistributedDataParallel sends.

    tables: how many embeddings are sent by their rows; sent, usual: bytes.
    """
    size, instead = format_bytes(sent), format_bytes(usual)
    if size == instead and usual < MEGABYTE:
        return ""
    rows = f", of {tables} embedding{'s'[: tables > 1]} the rows that are not zero" if tables else ""
    kept = "; what rounding takes goes into the next step, from zero at each start" if name == INT8 else ""
    compared = "" if size == instead else f" instead of {instead}"
    return f"gradients are sent as {name}{rows}: {size} a step{compared}{kept} ({VARIABLE})"


def format_bytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / MEGABYTE:.1f} MB" if count >= MEGABYTE else f"{count / 1000:.1f} kB"
