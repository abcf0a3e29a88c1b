"""A name and a home for a user that /etc/passwd does not know, as with `docker run --user 123456:0`.

Without a name ssh, sshd, ssh-keygen and getpass.getuser() give up; without a home caches have no place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.container.files import can_write, make_private, read_text, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/libnss_wrapper.so",
    "/usr/lib/aarch64-linux-gnu/libnss_wrapper.so",
)
SHELL = "/bin/bash"


class Identity(NamedTuple):
    """What gives us a name: variables to set, a library to preload, directories and files to make."""

    variables: dict[str, str]
    preload: str | None
    directories: tuple[str, ...]
    files: dict[str, str]


class Who(NamedTuple):
    """The user of this process: numbers, and the names if /etc/passwd and /etc/group have them."""

    uid: int
    gid: int
    name: str | None
    group: str | None


def identify(
    who: Who, environ: Mapping[str, str], writable: Callable[[str], bool], read: Callable[[str], str | None]
) -> Identity:
    """Return what is missing: nothing for a known user with a home."""
    home = environ.get("HOME", "")
    variables: dict[str, str] = {}
    directories: tuple[str, ...] = ()
    if not home or home == "/" or not writable(home):
        home = f"/tmp/home-{who.uid}"
        variables["HOME"] = home
        directories = (home,)
    name = who.name or f"user{who.uid}"
    variables.update({key: name for key in ("USER", "LOGNAME") if environ.get(key) != name and not who.name})
    library = next((path for path in LIBRARIES if read(path) is not None), None) if not who.name else None
    if library is None:
        return Identity(variables, None, directories, {})
    private = f"/tmp/multinode-{who.uid}"
    files = {f"{private}/passwd": passwd(who, name, home, read), f"{private}/group": group(who, name, read)}
    variables.update(NSS_WRAPPER_PASSWD=f"{private}/passwd", NSS_WRAPPER_GROUP=f"{private}/group")
    return Identity(variables, library, (*directories, private), files)


def passwd(who: Who, name: str, home: str, read: Callable[[str], str | None]) -> str:
    """Return the text of /etc/passwd with one line more."""
    return f"{with_newline(read('/etc/passwd'))}{name}:x:{who.uid}:{who.gid}:{name}:{home}:{SHELL}\n"


def group(who: Who, name: str, read: Callable[[str], str | None]) -> str:
    """Return the text of /etc/group, with one line more if our group has no name either."""
    known = with_newline(read("/etc/group"))
    return known if who.group else f"{known}{name}:x:{who.gid}:\n"


def with_newline(text: str | None) -> str:
    """Return a file's text with a line break at its end."""
    return f"{text.rstrip()}\n" if text and text.strip() else ""


def find_identity(environ: Mapping[str, str]) -> Identity:
    """Return the identity of this process, and make the directories and files that a user without a name needs."""
    import grp
    import pwd

    def ask(database: object, number: int, kind: str) -> str | None:
        try:
            return str(getattr(database, f"get{kind}id")(number)[0])
        except KeyError:
            return None

    who = Who(os.getuid(), os.getgid(), ask(pwd, os.getuid(), "pwu"), ask(grp, os.getgid(), "grg"))
    identity = identify(who, environ, lambda path: os.path.isdir(path) and can_write(path), read_text)
    for directory in identity.directories:
        make_private(directory)
    for path, text in identity.files.items():
        write_private(path, text)
    return identity
