"""A name, a shell and a home for a user that /etc/passwd does not know, as with `docker run --user 123456:0`.

Without a name ssh, sshd, ssh-keygen and getpass.getuser() give up; without a home caches have no place. OpenShift
starts a pod under any uid and gives that a name, but /sbin/nologin for a shell (cri-o, utils.go, GeneratePasswd), and
sshd starts whatever it is asked for by the shell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Callable, NamedTuple

from multinode_image.machine.files import (
    TEMPORARY,
    can_write,
    make_private,
    name_by_content,
    read_text,
    write_in_private,
)

LIBRARIES = ("/usr/lib/x86_64-linux-gnu/libnss_wrapper.so", "/usr/lib/aarch64-linux-gnu/libnss_wrapper.so")
SHELL = "/bin/bash"
# Shells that end every login.
CLOSED = ("nologin", "false")


class Identity(NamedTuple):
    """What gives us a name: variables to set, a library to preload, directories and files to make."""

    variables: dict[str, str]
    preload: str | None
    directories: tuple[str, ...]
    files: dict[str, str]


class Who(NamedTuple):
    """The user of this process: numbers, and the names if /etc/passwd and /etc/group have them.

    closed: whether the shell that /etc/passwd names would run no command.
    """

    uid: int
    gid: int
    name: str | None
    group: str | None
    closed: bool = False


def identify(
    who: Who, environ: Mapping[str, str], writable: Callable[[str], bool], read: Callable[[str], str | None]
) -> Identity:
    """Return what is missing: nothing for a known user with a home and a shell."""
    home = environ.get("HOME", "")
    variables: dict[str, str] = {}
    directories: tuple[str, ...] = ()
    if not home or home == "/" or not writable(home):
        home = f"{TEMPORARY}/home-{who.uid}"
        variables["HOME"] = home
        directories = (home,)
    name = who.name or f"user{who.uid}"
    variables.update({key: name for key in ("USER", "LOGNAME") if environ.get(key) != name and not who.name})
    lacking = not who.name or who.closed
    library = next((path for path in LIBRARIES if read(path) is not None), None) if lacking else None
    if library is None:
        return Identity(variables, None, directories, {})
    users, groups = passwd(who, name, home, read), group(who, name, read)
    places = [name_by_content("passwd", users, who.uid), name_by_content("group", groups, who.uid)]
    variables.update(zip(("NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"), places))
    return Identity(variables, library, directories, dict(zip(places, (users, groups))))


def passwd(who: Who, name: str, home: str, read: Callable[[str], str | None]) -> str:
    """Return the text of /etc/passwd with our line in the place of any other of this user: the first would count."""
    known = (read("/etc/passwd") or "").splitlines()
    others = [line for line in known if line.strip() and line.split(":")[2:3] != [str(who.uid)]]
    return "\n".join([*others, f"{name}:x:{who.uid}:{who.gid}:{name}:{home}:{SHELL}\n"])


def group(who: Who, name: str, read: Callable[[str], str | None]) -> str:
    """Return the text of /etc/group, with one line more if our group has no name either."""
    known = (read("/etc/group") or "").splitlines()
    return "".join(f"{line}\n" for line in [*known, *([] if who.group else [f"{name}:x:{who.gid}:"])])


def is_closed(shell: str | None, runs: Callable[[str], bool]) -> bool:
    """Return whether a shell would run no command; an empty one is /bin/sh (passwd(5)). runs: whether a file does."""
    return bool(shell) and (os.path.basename(str(shell)) in CLOSED or not runs(str(shell)))


def find_identity(environ: Mapping[str, str]) -> Identity:
    """Return the identity of this process, and make the directories and files that a user without a name needs."""
    import grp
    import pwd

    def ask(database: object, number: int, kind: str) -> tuple[str | None, ...]:
        try:
            return tuple(getattr(database, f"get{kind}id")(number))
        except KeyError:
            return (None,)

    user, group = ask(pwd, os.getuid(), "pwu"), ask(grp, os.getgid(), "grg")
    closed = is_closed(user[-1], lambda path: os.access(path, os.X_OK))
    who = Who(os.getuid(), os.getgid(), user[0], group[0], closed)
    identity = identify(who, environ, lambda path: os.path.isdir(path) and can_write(path), read_text)
    for directory in identity.directories:
        make_private(directory)
    for path, text in identity.files.items():
        write_in_private(path, text)
    return identity
