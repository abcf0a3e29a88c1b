"""ssh to another node with the mounted key: what mpirun uses, and people in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.machine.network import is_here
from entrypoint.mpi.keys import copy_keys, read_ssh_port, write_client
from entrypoint.mpi.sshd import strip_preloads

if TYPE_CHECKING:
    from collections.abc import Mapping

# Options of ssh that take a value: ssh(1), synopsis.
VALUED = "BbcDEeFIiJLlmOoPpQRSWw"


def connect(words: list[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return ssh's command line and environment; without a mounted key it is plain ssh.

    A command for this very machine is run without ssh: hydra knows a machine only by its host name, and a hostfile may
    have another name for it, while no server listens here. ssh loses its connection ("Bad file descriptor") with
    tcmalloc and Intel's OpenMP preloaded. A configuration that is named before the host (-F) is the user's own, or the
    one that `launch` has written.
    """
    host, command, options = read_words(words)
    if host and command and is_here(host):
        return ["sh", "-c", " ".join(command)], dict(environ)
    keys = None if "F" in options else copy_keys(environ)
    if keys is None or keys.private is None:
        return ["ssh", *words], strip_preloads(environ)
    return ["ssh", "-F", write_client(keys, environ, read_ssh_port(environ)), *words], strip_preloads(environ)


def read_words(words: list[str]) -> tuple[str, list[str], str]:
    """Return the host and the command in ssh's arguments, empty where there is none, and the letters of its options."""
    left, letters = list(words), ""
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option == "--":
            break
        flags = option[1:]
        valued = next((place for place, letter in enumerate(flags) if letter in VALUED), None)
        letters += flags if valued is None else flags[: valued + 1]
        if valued == len(flags) - 1 and left:
            left.pop(0)
    return (left[0].rpartition("@")[2], left[1:], letters) if left else ("", [], letters)
