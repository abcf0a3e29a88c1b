"""Where Debian's packages come from: Debian's own mirror, one that the user names, or those of this machine's apt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from images.debian import control

VARIABLE = "MULTINODE_DEBIAN_MIRROR"
DOMAIN = "debian.org"
OWN, SECURITY = f"http://deb.{DOMAIN}/debian", f"http://security.{DOMAIN}/debian-security"
PARTS = ("", "-updates", "-security")  # what follows a suite's name, as in bookworm-security
APT = Path("/etc/apt")
LINE = re.compile(r"deb\s+(?:\[[^]\n]*]\s+)?(?P<uri>[^\s\[#]+)\s+(?P<suite>[^\s#]+)\s+(?P<components>[^#\n]+)")
SETTING = re.compile(r'^\s*([A-Za-z0-9:_-]+)\s+"([^"\n]*)"\s*;', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A suite in an archive, such as bookworm-updates in Debian's own."""

    uri: str
    suite: str


def own(suite: str) -> tuple[Source, ...]:
    """Return Debian's own mirrors of a suite, of its updates and of its security updates."""
    return tuple(Source(SECURITY if part == "-security" else OWN, suite + part) for part in PARTS)


def named(suite: str, environ: Mapping[str, str]) -> tuple[Source, ...]:
    """Return the mirror that the user names, none where he does not; security updates lie beside it, by custom."""
    mirror = environ.get(VARIABLE, "").strip().rstrip("/")
    return tuple(Source(mirror + part.replace("-updates", ""), suite + part) for part in PARTS) if mirror else ()


def of_machine(suite: str, apt: Path = APT) -> tuple[Source, ...]:
    """Return what the apt of this machine has of a suite (sources.list(5)); nothing where the suite itself is not."""
    found = {source.suite: source for source in reversed([*_of_lines(apt), *_of_paragraphs(apt)])}
    wanted = [f"{suite}{part}" for part in PARTS]
    return tuple(found[name] for name in wanted if name in found) if suite in found else ()


def setting(name: str, apt: Path = APT) -> str:
    """Return what the configuration of this machine's apt says in one line, as `Acquire::http::Proxy "..."` does."""
    texts = map(_text, [*sorted((apt / "apt.conf.d").glob("*")), apt / "apt.conf"])
    said = [value for text in texts for key, value in SETTING.findall(text) if key.lower() == name.lower()]
    return said[-1] if said else ""


def listed(sources: tuple[Source, ...]) -> str:
    """Return sources as a sources.list(5)."""
    return "".join(f"deb {source.uri} {source.suite} main\n" for source in sources)


def _of_lines(apt: Path) -> Iterator[Source]:
    for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))):
        for line in _text(path).splitlines():
            if (found := LINE.match(line.strip())) and "main" in found["components"].split():
                yield Source(found["uri"].rstrip("/"), found["suite"])


def _of_paragraphs(apt: Path) -> Iterator[Source]:
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        text = re.sub(r"(?m)^#.*\n?", "", _text(path))
        for said in control.paragraphs(text):
            kinds, enabled = said.get("types", "").split(), said.get("enabled", "yes")
            if "deb" in kinds and "main" in said.get("components", "").split() and enabled != "no":
                for uri in said.get("uris", "").split():
                    yield from (Source(uri.rstrip("/"), suite) for suite in said.get("suites", "").split())


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
