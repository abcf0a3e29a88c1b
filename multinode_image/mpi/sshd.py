"""The server of `worker`: sshd as the user of this container, without a privilege, for ranks from another node."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import lend_private, which, write_private
from multinode_image.machine.network import try_port
from multinode_image.mpi.keys import MODERN, find_keys, make_host_key, read_ssh_port, strip_preloads
from multinode_image.printing.streams import print_note
from multinode_image.processes import CAUGHT, run_child

SSHD = "/usr/sbin/sshd"
# What belongs to this process, not to the image or the job; a session has its own.
OF_SHELL = ("_", "OLDPWD", "PWD", "SHLVL", "TERM")
NAME = re.compile("[A-Za-z0-9_]+")
# sshd ends a session of 1000 variables, its own among them (openssh, misc.c, child_set_env).
MOST = 900
FIXED = f"""\
# No root, no PAM, no password; the directories of an unknown user or of a Secret have any mode.
UsePAM no
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
DisableForwarding yes
PrintMotd no
UseDNS no
{MODERN}
# A job of many ranks connects to all hosts at once.
MaxStartups 200
MaxSessions 200
# Who logs in, and who tried to.
LogLevel INFO
"""


def serve(environ: Mapping[str, str]) -> int:
    """Run the server until it is ended, and return its exit code."""
    with lend_private("worker") as directory:
        return run_child(*prepare_server(environ, directory), CAUGHT)


def prepare_server(environ: Mapping[str, str], directory: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of the server, and its environment; directory: for its files."""
    program = SSHD if os.access(SSHD, os.X_OK) else which("sshd", environ)
    if program is None:
        raise Refusal("there is no ssh server in this image", SSHD, "apt-get install openssh-server", EXIT_OUTSIDE)
    port = read_ssh_port(environ)
    if error := try_port(port):
        remedy = "export MULTINODE_SSH_PORT=N on every node, where N is another one above 1023"
        raise Refusal(f"the port for ssh cannot be used ({error.strerror})", port, remedy)
    keys = find_keys(environ, directory)
    variables, left_out = choose_variables(environ)
    if left_out:
        print_note(f"ranks do not get variables whose value has a line break: {' '.join(left_out)}")
    lines = [f"Port {port}", *make_host_key(keys, environ), f"AuthorizedKeysFile {keys.authorized}", FIXED]
    # One SetEnv for all, because sshd reads only the first; in a file, because a command line is open to everybody.
    lines.append("SetEnv " + " ".join(f'"{name}={escape(value)}"' for name, value in variables.items()))
    config = write_private(f"{keys.directory}/sshd_config", "\n".join(lines) + "\n")
    return [program, "-D", "-e", "-f", config], strip_preloads(environ)


def choose_variables(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a session gets, and the names of those whose value has a line break within it.

    Without them a rank has no libraries, caches, tokens and proxies. Line breaks at the end of a value are left out: a
    Secret that was made of a file keeps the last one of it, and huggingface_hub drops it itself (_clean_token in
    utils/_auth.py). Raises Refusal where they are more than sshd takes.
    """
    known = {name: value for name, value in sorted(environ.items()) if name not in OF_SHELL and NAME.fullmatch(name)}
    known = {name: value.rstrip("\r\n") if value.endswith("\n") else value for name, value in known.items()}
    fit = {name: value for name, value in known.items() if "\n" not in value}
    if len(fit) > MOST:
        remedy = "leave out what the ranks do not need; in Kubernetes enableServiceLinks: false in the spec of the pod"
        raise Refusal(f"ssh can hand over {MOST} variables at most", f"{len(fit)} are set", remedy)
    return fit, [name for name in known if name not in fit]


def escape(value: str) -> str:
    """Return a value for a quoted word of sshd, with quotes and backslashes escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
