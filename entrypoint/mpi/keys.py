"""The mounted ssh key, and what is made of it: a private copy, and host keys that it has signed."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import WORLD, Refusal
from entrypoint.machine.files import explain_closed, find_closed, make_private, read_file, write_private
from entrypoint.numbers import LAST_PORT, whole
from entrypoint.world.kubeflow import ROLE, is_trainjob

if TYPE_CHECKING:
    from collections.abc import Mapping

MOUNT = "/etc/multinode/ssh"
# Where sshd listens unless somebody says otherwise; a port above 1023 needs no privilege.
PORT = 2222
# The last one is what Kubernetes calls it in a Secret of type kubernetes.io/ssh-auth.
NAMES = ("id_ed25519", "id_ecdsa", "id_rsa", "ssh-privatekey")
# The file is copied, so it may be readable for all; for its owner alone it is closed to another uid in the container.
MAKE = "ssh-keygen -t ed25519 -N '' -f id_ed25519 && chmod 644 id_ed25519, and mount the file in {} on every node"

# The operator has made a key; without this it is in /root/.ssh (mpi-operator v2beta1, MPIJobSpec.SSHAuthMountPath).
MOVE = f"sshAuthMountPath: {MOUNT} in the spec of the MPIJob, or in the mpi policy of the runtime"


class Keys(NamedTuple):
    """Files in a private directory; private is None where only authorized_keys is mounted."""

    directory: str
    private: str | None
    public: str
    authorized: str


def find_keys(environ: Mapping[str, str]) -> Keys:
    """Return the mounted key; raise Refusal where there is none, with how to mount one."""
    keys = copy_keys(environ)
    if keys is None:
        operated = bool(environ.get(ROLE)) or is_trainjob(environ)
        raise Refusal(
            "no ssh key is mounted",
            f"looked in {' and '.join(places(environ))}",
            MOVE if operated else explain_make(environ),
        )
    return keys


def explain_make(environ: Mapping[str, str]) -> str:
    """Return how to make a key and where to mount it: in the first directory that is looked in."""
    return MAKE.format(places(environ)[0])


def places(environ: Mapping[str, str]) -> list[str]:
    """List the directories where a key may be mounted: HOME is another than at the start where that is read-only."""
    homes = dict.fromkeys((environ.get("HOME", "/"), os.path.expanduser("~")))
    return [environ.get("MULTINODE_SSH_KEYS") or MOUNT, *(os.path.join(home, ".ssh") for home in homes)]


def copy_keys(environ: Mapping[str, str]) -> Keys | None:
    """Return a private copy of the mounted key: a Secret is mounted readable for all, which ssh refuses.

    Raises Refusal for one that is mounted and cannot be read.
    """
    directory = make_private(f"/tmp/multinode-{os.getuid()}/ssh")
    for place in places(environ):
        if find_closed(f"{place}/id") == os.path.abspath(place):
            raise explain_closed("the directory of the ssh key cannot be read", place)
        key = next((path for path in (f"{place}/{name}" for name in NAMES) if os.path.exists(path)), None)
        authorized = read_file(f"{place}/authorized_keys")
        if key is None and authorized is None:
            continue
        public, private = "", None
        if key is not None:
            private = copy_key(key, directory)
            public = derive(private, key, environ)
        # Where only the key is mounted, whoever has it may log in.
        write_private(f"{directory}/authorized_keys", authorized or public)
        return Keys(directory, private, public, f"{directory}/authorized_keys")
    return None


def copy_key(path: str, directory: str) -> str:
    """Copy a private key and return the path; raise Refusal if it may not be read."""
    text = read_file(path)
    if text is None:
        raise explain_closed("the ssh key cannot be read", path)
    # An editor or a Secret written by hand may have lost the last line break, without which ssh refuses the key.
    return write_private(f"{directory}/id", text.rstrip() + "\n")


def derive(private: str, mounted: str, environ: Mapping[str, str]) -> str:
    """Return the public half of a key; raise Refusal if it is no key, or has a passphrase."""
    done = keygen(["-y", "-P", "", "-f", private], environ)
    if done.returncode != 0:
        raise Refusal("this is not a private ssh key without a passphrase", mounted, explain_make(environ))
    return done.stdout


def keygen(words: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ssh-keygen without a terminal to ask at."""
    return subprocess.run(
        ["ssh-keygen", *words],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def make_host_key(keys: Keys, environ: Mapping[str, str]) -> list[str]:
    """Make this node's host key, signed by the mounted key; return the lines for sshd's configuration."""
    path = f"{keys.directory}/host"
    for old in (path, f"{path}.pub", f"{path}-cert.pub"):
        if os.path.lexists(old):
            os.unlink(old)
    made = keygen(["-q", "-t", "ed25519", "-N", "", "-f", path], environ)
    if made.returncode != 0:
        raise Refusal("a host key cannot be made", made.stderr.strip(), "correct what ssh-keygen reports", WORLD)
    if keys.private is None:
        return [f"HostKey {path}"]
    signed = keygen(["-q", "-s", keys.private, "-I", "multinode", "-h", f"{path}.pub"], environ)
    if signed.returncode != 0:
        raise Refusal("the host key cannot be signed", signed.stderr.strip(), "correct what ssh-keygen reports", WORLD)
    return [f"HostKey {path}", f"HostCertificate {path}-cert.pub"]


def write_client(keys: Keys, environ: Mapping[str, str], port: int) -> str:
    """Write ssh's configuration and return its path: it connects only to hosts that have the mounted key.

    A host key made by `worker` is signed by the mounted key; the operator of MPIJob has sshd show that key itself.
    """
    checking, own = read_checking(environ), keys.public.strip()
    # A name that is known by one key is refused with another, whatever else is allowed.
    known = f"@cert-authority * {own}\n" + (f"* {own}\n" if checking == "yes" else "")
    write_private(f"{keys.directory}/known_hosts", known)
    lines = [
        "Host *",
        f"Port {port}",
        f"IdentityFile {keys.private}",
        "IdentitiesOnly yes",
        "BatchMode yes",
        f"UserKnownHostsFile {keys.directory}/known_hosts",
        "GlobalKnownHostsFile /dev/null",
        f"StrictHostKeyChecking {checking}",
        "UpdateHostKeys no",
        "LogLevel ERROR",
        "ConnectTimeout 10",
        # A node that is gone without a word is noticed within half a minute.
        "ServerAliveInterval 10",
        "ServerAliveCountMax 3",
    ]
    return write_private(f"{keys.directory}/ssh_config", "\n".join(lines) + "\n")


def read_checking(environ: Mapping[str, str]) -> str:
    """Return whether a host key that is unknown is refused (yes), as it is by default, or taken the first time."""
    value = environ.get("MULTINODE_SSH_HOST_KEYS") or "yes"
    if value not in ("yes", "accept-new"):
        remedy = "export MULTINODE_SSH_HOST_KEYS=accept-new, or unset it"
        raise Refusal("MULTINODE_SSH_HOST_KEYS is neither yes nor accept-new", repr(value), remedy)
    return value


def read_ssh_port(environ: Mapping[str, str]) -> int:
    """Return the port of sshd."""
    text = environ.get("MULTINODE_SSH_PORT") or str(PORT)
    port = whole(text)
    if not port or port > LAST_PORT:
        raise Refusal("MULTINODE_SSH_PORT is not a port", repr(text), f"export MULTINODE_SSH_PORT={PORT}")
    return port
