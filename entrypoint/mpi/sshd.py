"""The server of `worker`: sshd as the user of this container, without a privilege, for ranks from another node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.errors import WORLD, Refusal
from entrypoint.machine.files import which, write_private
from entrypoint.machine.network import try_port
from entrypoint.mpi.keys import PORT, find_keys, make_host_key, read_ssh_port
from entrypoint.numbers import LAST_PORT
from entrypoint.printing.streams import print_note

if TYPE_CHECKING:
    from collections.abc import Mapping

SSHD = "/usr/sbin/sshd"
# What belongs to this process, not to the image or the job; a session has its own.
OWN = ("_", "OLDPWD", "PWD", "SHLVL", "TERM")
# sshd ends a session of 1000 variables, its own among them (openssh, misc.c, child_set_env).
MOST = 900
FIXED = """\
# No root, no PAM, no password; the directories of an unknown user or of a Secret have any mode.
UsePAM no
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
AcceptEnv none
DisableForwarding yes
PrintMotd no
UseDNS no
# A job of many ranks connects to all hosts at once.
MaxStartups 200
MaxSessions 200
# A probe that connects and leaves is not worth a line.
LogLevel FATAL
"""


def serve(environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the server, and its environment."""
    program = SSHD if os.access(SSHD, os.X_OK) else which("sshd", environ)
    if program is None:
        raise Refusal("there is no ssh server in this image", SSHD, "apt-get install openssh-server", WORLD)
    port = read_ssh_port(environ)
    check_port(port)
    keys = find_keys(environ)
    if keys.private is None:
        note = "only authorized_keys is mounted, so nothing proves this host's key: launch refuses it"
        print_note(f"{note} unless MULTINODE_SSH_HOST_KEYS=accept-new is set there")
    left_out = find_broken(environ)
    if left_out:
        print_note(f"ranks do not get variables whose value has a line break: {' '.join(left_out)}")
    lines = [f"Port {port}", *make_host_key(keys, environ), f"AuthorizedKeysFile {keys.authorized}", FIXED]
    # One SetEnv for all, because sshd reads only the first; in a file, because a command line is open to everybody.
    lines.append("SetEnv " + " ".join(set_env(environ)))
    config = write_private(f"{keys.directory}/sshd_config", "\n".join(lines) + "\n")
    return [program, "-D", "-e", "-f", config], strip_preloads(environ)


def set_env(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that a session gets; without them it has no libraries, caches, tokens and proxies.

    Raises Refusal where they are more than sshd takes.
    """
    fit = {name: value for name, value in list_whole(environ).items() if "\n" not in value}
    if len(fit) > MOST:
        fit = drop_services(fit)
    if len(fit) > MOST:
        fact, remedy = f"ssh can hand over {MOST} variables at most", "leave out what the ranks do not need"
        raise Refusal(fact, f"{len(fit)} are set", remedy)
    return [f'"{name}={escape(value)}"' for name, value in fit.items()]


def list_whole(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job, without line breaks at the end of a value.

    A Secret that was made of a file keeps the last one of it, and huggingface_hub drops it itself (_clean_token in
    utils/_auth.py).
    """
    return {
        name: value.rstrip("\r\n") if value.endswith("\n") else value
        for name, value in sorted(environ.items())
        if name not in OWN and name.replace("_", "a").isalnum()
    }


def find_broken(environ: Mapping[str, str]) -> list[str]:
    """List variables that have a line break within their value, which a word of sshd's configuration cannot have."""
    return [name for name, value in list_whole(environ).items() if "\n" in value]


def drop_services(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those of other Services of a namespace: Kubernetes sets seven or more for each."""
    named = [name.removesuffix("_SERVICE_HOST") for name in environ if name.endswith("_SERVICE_HOST")]
    others = tuple(f"{name}_{part}" for name in named if name != "KUBERNETES" for part in ("SERVICE_", "PORT"))
    return {name: value for name, value in environ.items() if not name.startswith(others)}


def escape(value: str) -> str:
    """Return a value for a quoted word of sshd, with quotes and backslashes escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def strip_preloads(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the allocator and OpenMP: the sandbox of sshd allows few system calls."""
    parts = [part for part in environ.get("LD_PRELOAD", "").split(":") if "libnss_wrapper" in part]
    return {**environ, "LD_PRELOAD": ":".join(parts)}


def check_port(port: int) -> None:
    """Raise Refusal if a port cannot be used, before sshd fails on it."""
    error = try_port(port)
    if error is not None:
        other = PORT if isinstance(error, PermissionError) or port == LAST_PORT else port + 1
        fact = f"the port for ssh cannot be used ({error.strerror})"
        raise Refusal(fact, port, f"export MULTINODE_SSH_PORT={other} on every node")
