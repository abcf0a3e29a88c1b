"""The mounted ssh key, and what is made of it: a private copy, host keys that it has signed, and the client's side."""

from __future__ import annotations

import contextlib
import getopt
import os
import subprocess
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import make_private, private_path, read_file, write_private
from multinode_image.machine.network import is_here
from multinode_image.reading import LAST_PORT, whole
from multinode_image.world.table import ROLE, is_trainjob

MOUNT = "/etc/multinode/ssh"
# Where sshd listens unless somebody says otherwise; a port above 1023 needs no privilege.
SSH_PORT = 2222
# The last one is what Kubernetes calls it in a Secret of type kubernetes.io/ssh-auth.
NAMES = ("id_ed25519", "id_ecdsa", "id_rsa", "ssh-privatekey")
# The file is copied, so it may be readable for all; for its owner alone it is closed to another uid in the container,
# and in a directory for its owner alone it looks as if it were not there.
MAKE = (
    "ssh-keygen -t ed25519 -N '' -f id_ed25519 && chmod 644 id_ed25519, and mount the file, or its directory with "
    "mode 755, in {} on every node"
)
# Of what a release of OpenSSH offers, neither side takes what is old or weak: Diffie-Hellman without curves, curves of
# NIST, CBC, and codes of SHA-1, of MD5, or that do not cover the ciphertext. Each release adds its own new ones.
MODERN = """\
KexAlgorithms -diffie-hellman-*,ecdh-sha2-*
Ciphers -*-cbc
MACs -hmac-sha1*,hmac-md5*,umac-64*,umac-128@openssh.com,hmac-sha2-256,hmac-sha2-512"""
# Options of ssh, those with a colon take a value: ssh(1), synopsis.
OPTIONS = "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"

# The operator has made a key; without this it is in /root/.ssh (mpi-operator v2beta1, MPIJobSpec.SSHAuthMountPath).
MOVE = f"sshAuthMountPath: {MOUNT} in the spec of the MPIJob, or in the mpi policy of the runtime"


class Keys(NamedTuple):
    """Files in a private directory."""

    directory: str
    private: str
    public: str
    authorized: str


def find_keys(environ: Mapping[str, str], directory: str) -> Keys:
    """Return a copy of the mounted key; raise Refusal where there is none, with how to mount one.

    directory: a private one of this process alone.
    """
    keys = copy_keys(environ, lambda _: directory)
    if keys is None:
        operated = bool(environ.get(ROLE)) or is_trainjob(environ)
        remedy = MOVE if operated else explain_make(environ)
        raise Refusal("no ssh key is mounted", f"looked in {' and '.join(places(environ))}", remedy)
    return keys


def explain_make(environ: Mapping[str, str]) -> str:
    """Return how to make a key and where to mount it: in the first directory that is looked in."""
    return MAKE.format(places(environ)[0])


def places(environ: Mapping[str, str]) -> list[str]:
    """List the directories where a key may be mounted: HOME is another than at the start where that is read-only."""
    homes = dict.fromkeys((environ.get("HOME", "/"), os.path.expanduser("~")))
    return [environ.get("MULTINODE_SSH_KEYS") or MOUNT, *(os.path.join(home, ".ssh") for home in homes)]


def copy_keys(environ: Mapping[str, str], choose: Callable[[str], str]) -> Keys | None:
    """Return a private copy of the mounted key: a Secret is mounted readable for all, which ssh refuses.

    choose: returns the private directory for a key, by its text. Raises Refusal for one that is mounted and cannot be
    read, is no key, or has a passphrase.
    """
    for place in places(environ):
        key = next((path for path in (f"{place}/{name}" for name in NAMES) if os.path.exists(path)), None)
        if key is None:
            continue
        text = read_key(key)
        directory = choose(text)
        private = write_private(f"{directory}/id", text)
        derived = keygen(["-y", "-P", "", "-f", private], environ)
        if derived.returncode:
            raise Refusal("this is not a private ssh key without a passphrase", key, explain_make(environ))
        # Where only the key is mounted, whoever has it may log in.
        write_private(f"{directory}/authorized_keys", read_file(f"{place}/authorized_keys") or derived.stdout)
        return Keys(directory, private, derived.stdout, f"{directory}/authorized_keys")
    return None


def read_key(path: str) -> str:
    """Return the text of a private key; raise Refusal if it may not be read."""
    text = read_file(path)
    if text is None:
        raise Refusal("the ssh key cannot be read", path, "chmod a+r the file on the host that is mounted there")
    # An editor or a Secret written by hand may have lost the last line break, without which ssh refuses the key.
    return text.rstrip() + "\n"


def keygen(words: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ssh-keygen without a terminal to ask at."""
    pipe, command = subprocess.PIPE, ["ssh-keygen", *words]
    return subprocess.run(
        command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, check=False,
        encoding="utf-8", errors="replace",
    )  # fmt: skip


def make_host_key(keys: Keys, environ: Mapping[str, str]) -> list[str]:
    """Make this node's host key, signed by the mounted key; return the lines for sshd's configuration."""
    path = f"{keys.directory}/host"
    make = ["-q", "-t", "ed25519", "-N", "", "-f", path]
    for words in (make, ["-q", "-s", keys.private, "-I", "multinode", "-h", f"{path}.pub"]):
        done = keygen(words, environ)
        if done.returncode:
            fact = "a host key cannot be made, or not be signed"
            raise Refusal(fact, done.stderr.strip(), "correct what ssh-keygen reports", EXIT_OUTSIDE)
    return [f"HostKey {path}", f"HostCertificate {path}-cert.pub"]


def write_client(keys: Keys, port: int) -> str:
    """Write ssh's configuration and return its path: it connects only to hosts that have the mounted key.

    A host key made by `worker` is signed by the mounted key; the operator of MPIJob has sshd show that key itself.
    """
    key = keys.public.strip()
    write_private(f"{keys.directory}/known_hosts", f"@cert-authority * {key}\n* {key}\n")
    lines = [
        "Host *",
        f"Port {port}",
        f"IdentityFile {keys.private}",
        "IdentitiesOnly yes",
        "BatchMode yes",
        f"UserKnownHostsFile {keys.directory}/known_hosts",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "UpdateHostKeys no",
        "LogLevel ERROR",
        "ConnectTimeout 10",
        # A node that is gone without a word is noticed within half a minute.
        "ServerAliveInterval 10",
        "ServerAliveCountMax 3",
        MODERN,
    ]
    return write_private(f"{keys.directory}/ssh_config", "\n".join(lines) + "\n")


def read_ssh_port(environ: Mapping[str, str]) -> int:
    """Return the port of sshd."""
    text = environ.get("MULTINODE_SSH_PORT") or str(SSH_PORT)
    port = whole(text)
    if not port or port > LAST_PORT:
        raise Refusal("MULTINODE_SSH_PORT is not a port", repr(text), f"export MULTINODE_SSH_PORT={SSH_PORT}")
    return port


def connect(words: list[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return ssh's command line and environment; without a mounted key it is plain ssh.

    A command for this very machine is run without ssh: hydra knows a machine only by its host name, and a hostfile may
    have another name for it, while no server listens here. ssh loses its connection ("Bad file descriptor") with
    tcmalloc and Intel's OpenMP preloaded. A configuration that is named before the host (-F) is the user's own, or the
    one that `launch` has written. Else the files are in a directory that is named by key and port: what starts ssh once
    for each host removes none of them, and all that start it with these write the same.
    """
    options, host, command = read_words(words)
    if command and is_here(host):
        return ["sh", "-c", " ".join(command)], dict(environ)
    if "-F" in options:
        return ["ssh", *words], strip_preloads(environ)
    port = read_ssh_port(environ)
    keys = copy_keys(environ, lambda key: make_private(private_path(f"ssh-{port}-{sha256(key.encode()).hexdigest()}")))
    client = [] if keys is None else ["-F", write_client(keys, port)]
    return ["ssh", *client, *words], strip_preloads(environ)


def read_words(words: list[str]) -> tuple[set[str], str, list[str]]:
    """Return the options, the host and the command in ssh's arguments; nothing of wrong ones, which ssh explains."""
    with contextlib.suppress(getopt.GetoptError):
        options, rest = getopt.getopt(words, OPTIONS)
        return {name for name, _ in options}, "".join(rest[:1]).rpartition("@")[2], rest[1:]
    return set(), "", []


def strip_preloads(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the allocator and OpenMP: the sandbox of sshd allows few system calls."""
    parts = [part for part in environ.get("LD_PRELOAD", "").split(":") if "libnss_wrapper" in part]
    return {**environ, "LD_PRELOAD": ":".join(parts)}
