"""Options of torchrun and accelerate, in the form with underscores: older releases take no dashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# Torchrun's options without a value and with one (torch/distributed/run.py); --use_env is that of its older name.
FLAGS = (
    "--standalone", "-m", "--module", "--no_python", "--run_path", "--virtual_local_rank", "--use_env", "-h", "--help",
)  # fmt: skip
VALUED = (
    "--nnodes", "--nproc_per_node", "--node_rank", "--master_addr", "--master_port", "--local_addr", "--rdzv_backend",
    "--rdzv_endpoint", "--rdzv_id", "--rdzv_conf", "--max_restarts", "--monitor_interval", "--start_method",
    "--event_log_handler", "--role", "--log_dir", "--logs_specs", "-r", "--redirects", "-t", "--tee",
    "--local_ranks_filter", "--duplicate_stdout_filters", "--duplicate_stderr_filters", "--numa_binding",
    "--signals_to_handle", "--shutdown_timeout",
)  # fmt: skip


def read_program_options(
    words: list[str], flags: Collection[str], valued: Collection[str] | None = None
) -> dict[str, str]:
    """Return the options before a script with underscores, the last of several; flags, valued: as in `walk_options`."""
    return {name: value for name, value, _ in walk_options(words, flags, valued)}


def walk_options(
    words: list[str], flags: Collection[str], valued: Collection[str] | None = None
) -> Iterator[tuple[str, str, int]]:
    """Yield each option before a script with underscores, its value, and the place of the word in which that ends.

    flags: the options without a value; valued: those with one, None where not all are known.
    """
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name, equals, value = words[place].partition("=")
        name = name[:2] + name[2:].replace("-", "_")
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
