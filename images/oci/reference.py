"""What the user calls an image -> where it is: a registry, an OCI layout, an archive."""

from __future__ import annotations

import re
from dataclasses import dataclass

from images.host.errors import UserFault

HUB = "docker.io"

# The grammar of github.com/distribution/reference, for digests of the one kind that registries make.
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
NAME = re.compile(rf"{COMPONENT}(?:/{COMPONENT})*")
LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
HOST = re.compile(rf"(?:{LABEL}(?:\.{LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]{{1,5}})?")
ARCHIVE = re.compile(r".\.tar$", re.DOTALL)
# Docker speaks plain HTTP with these only; `docker pull` of any other host needs `insecure-registries`.
NEAR = re.compile(r"(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?")

LONGEST = 255  # characters of a name with its host, by the same grammar

REMEDY = "name:tag, host:port/name@sha256:..., oci:DIRECTORY or archive:FILE"


@dataclass(frozen=True)
class Remote:
    """An image in a registry, by tag or by digest (`sha256:` and hexadecimal); a digest goes before a tag."""

    host: str
    name: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        return self.called(self.digest or str(self.tag))

    def called(self, tag_or_digest: str) -> str:
        """Return the name of another image in the same repository."""
        return f"{self.host}/{self.name}{'@' if ':' in tag_or_digest else ':'}{tag_or_digest}"

    @property
    def is_plain(self) -> bool:
        """Return whether plain HTTP is spoken there."""
        return NEAR.fullmatch(self.host) is not None


@dataclass(frozen=True)
class LayoutReference:
    """An image in an OCI layout on disk; without a tag it is the only one there."""

    path: str
    tag: str | None = None

    def __str__(self) -> str:
        return f"oci:{self.path}" + (f":{self.tag}" if self.tag else "")


@dataclass(frozen=True)
class ArchiveReference:
    """An image in one file: by `docker save`, or an OCI layout in a tar."""

    path: str

    def __str__(self) -> str:
        return f"archive:{self.path}"


Reference = Remote | LayoutReference | ArchiveReference


def parse_reference(text: str, remedy: str = REMEDY) -> Reference:
    """Read a reference.

    Raises UserFault, with `remedy`, when it is none.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in ("oci", "archive"):
        if not rest or "\0" in rest:
            raise UserFault("a reference has no path", repr(text), remedy)
        return ArchiveReference(rest) if kind == "archive" else _parse_layout(rest)
    return ArchiveReference(text) if _is_archive(text) else _remote(text, remedy)


def _is_archive(text: str) -> bool:
    return bool(ARCHIVE.search(text)) and "\0" not in text and (text.startswith(("/", ".")) or ":" not in text)


def parse_tag(text: str) -> str:
    """Read what an image is to be called in an engine, as NAME:TAG; without a tag it is `latest`, as Docker has it.

    Raises UserFault when it is no name.
    """
    remedy = "--tag NAME:TAG"
    remote = _remote(text, remedy)
    if remote.digest:
        raise UserFault("an image gets a name, not a digest", repr(text), remedy)
    return text if ":" in text.rpartition("/")[2] else f"{text}:{remote.tag}"


def full_name(text: str) -> str:
    """Return a name with the host and the path that Docker adds where it has none: docker.io/library/NAME:TAG.

    Raises UserFault when it is no name.
    """
    return str(_remote(text))


def parse_remote(text: str, remedy: str) -> Remote:
    """Read the name of an image in a registry.

    Raises UserFault, with `remedy`, when it is none.
    """
    reference = parse_reference(text, remedy)
    if not isinstance(reference, Remote):
        raise UserFault("that is not a name in a registry", repr(text), remedy)
    return reference


def push_target(text: str) -> Remote:
    """Read where an image is to be pushed to.

    Raises UserFault when it is not a name in a registry.
    """
    remedy = "--push HOST/NAME:TAG"
    target = parse_remote(text, remedy)
    if target.digest:
        raise UserFault("an image is pushed to a name, not a digest", repr(text), remedy)
    if target.host.startswith("[") or target.host != target.host.lower():
        remedy += ", its host in small letters and no IPv6 address"
        raise UserFault("skopeo does not take such a name", repr(text), remedy)
    return target


def _parse_layout(text: str) -> LayoutReference:
    path, colon, tag = text.rpartition(":")
    return LayoutReference(path, tag) if colon and path and TAG.fullmatch(tag) else LayoutReference(text)


def _remote(text: str, remedy: str = REMEDY) -> Remote:
    """Split as Docker does: what is before the first slash is a host if it looks like one."""
    rest, at, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost" or head != head.lower()):
        host, rest = head, tail
    else:
        host = HUB
    name, colon, tag = rest.partition(":")
    if host in ("index.docker.io", "registry-1.docker.io"):
        host = HUB
    if host == HUB and "/" not in name:
        name = f"library/{name}"
    if not NAME.fullmatch(name) and NAME.fullmatch(name.lower()):
        small = f"{remedy.partition(' ')[0]} " if remedy.startswith("--") else ""
        fact = "the name of an image has small letters only; a registry takes no other"
        raise UserFault(fact, repr(text), small + text.replace(name, name.lower()) if name in text else remedy)
    faults = (
        (not HOST.fullmatch(host), "that is not the name of a registry", host),
        (not NAME.fullmatch(name), "that is not the name of an image", rest),
        (len(f"{host}/{name}") > LONGEST, f"that name has more than {LONGEST} characters", rest),
        (bool(colon) and not TAG.fullmatch(tag), "that is not a tag", tag),
        (bool(at) and not DIGEST.fullmatch(digest), "that is not a sha256 digest", digest),
    )
    for wrong, fact, value in faults:
        if wrong:
            raise UserFault(fact, f"{value!r} in {text!r}", remedy)
    return Remote(host, name, tag or (None if at else "latest"), digest or None)
