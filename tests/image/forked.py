"""Run a script beside this one in ranks that are forks, told of each other as by torchrun; all import it once.

forked.py RANKS SCRIPT [ARGUMENT...] [then ARGUMENT...]    `then`: start the ranks again, with these for its main();
                                                            the end of the last start is that of the program

What a rank imports for a Trainer takes seconds, and an agent of torchrun imports torch.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# What a container with such a script has: the hooks of a training, and these scripts in /ranks.
OPTIONS = (f"--volume={Path(__file__).parent}:/ranks:ro", "--env=OMP_NUM_THREADS=1", "--env=MULTINODE_TRAINING=1")


def split(words: list[str]) -> Iterator[list[str]]:
    """Return the arguments of each start."""
    while "then" in words:
        yield words[: words.index("then")]
        words = words[words.index("then") + 1 :]
    yield words


def start(ranks: int, main: Callable[..., None], words: list[str]) -> bool:
    """Run a function in all ranks; return whether each has ended well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    forks = multiprocessing.get_context("fork")
    processes = [forks.Process(target=take_part, args=(number, ranks, port, main, words)) for number in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return not any(process.exitcode for process in processes)


def take_part(number: int, ranks: int, port: int, main: Callable[..., None], words: list[str]) -> None:
    """Run it as a rank."""
    place = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    more = {"MULTINODE_WORLD_SIZE": ranks, "MULTINODE_TRAINING": os.getpid()}
    os.environ.update({name: str(value) for name, value in {**place, **meeting, **more}.items()})
    main(*words)


if __name__ == "__main__":
    imported = importlib.import_module(sys.argv[2])
    ends = [start(int(sys.argv[1]), imported.main, arguments) for arguments in split(sys.argv[3:])]
    sys.exit(not ends[-1])
