"""Options of programs that take them with dashes and with underscores, as torchrun and accelerate do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# Torchrun's options without a value and with one (torch/distributed/run.py); --use-env is that of its older name.
FLAGS = (
    "--standalone", "-m", "--module", "--no-python", "--run-path", "--virtual-local-rank", "--use-env", "-h", "--help",
)  # fmt: skip
VALUED = (
    "--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port", "--local-addr", "--rdzv-backend",
    "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--max-restarts", "--monitor-interval", "--start-method",
    "--event-log-handler", "--role", "--log-dir", "--logs-specs", "-r", "--redirects", "-t", "--tee",
    "--local-ranks-filter", "--duplicate-stdout-filters", "--duplicate-stderr-filters", "--numa-binding",
    "--signals-to-handle", "--shutdown-timeout",
)  # fmt: skip


def read_program_options(
    words: list[str], flags: Collection[str], valued: Collection[str] | None = None
) -> dict[str, str]:
    """Return the options before a script, the last of several, with dashes; flags, valued: as in `walk_options`."""
    return {name: value for name, value, _ in walk_options(words, flags, valued)}


def walk_options(
    words: list[str], flags: Collection[str], valued: Collection[str] | None = None
) -> Iterator[tuple[str, str, int]]:
    """Yield each option before a script with dashes, its value, and the place of the word in which that ends.

    flags: the options without a value; valued: those with one, None where not all are known.
    """
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name, equals, value = words[place].partition("=")
        name = name.replace("_", "-")
        name = name if valued is None else complete(name, (*flags, *valued))
        # The value may follow a letter in the same word, as in -r3.
        attached = len(name) > 2 and not name.startswith("--")
        bare = name in flags or attached or (not equals and place + 1 == len(words))
        if not bare and not equals:
            place += 1
            value = words[place]
        yield name, "1" if bare else value, place
        place += 1


def complete(name: str, options: Collection[str]) -> str:
    """Return the only option that begins so, for which argparse takes a name; the name itself if that is not one."""
    found = [each for each in options if each.startswith(name)] if name.startswith("--") else []
    return found[0] if len(found) == 1 and name not in options else name
