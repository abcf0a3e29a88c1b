"""Where packages come from: pip's own configuration, which uv does not read."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from images.host import process

# pip lets a later level replace an earlier one key by key: pip documentation, "Configuration", precedence.
LEVELS = ("global", "install", "download", ":env:")
KEYS = ("index-url", "extra-index-url", "find-links", "cert")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Indexes, directories of wheels and the certificate bundle that pip would use on this machine."""

    index: str | None = None
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    certificate: str | None = None

    def uv_options(self) -> list[str]:
        """Return the same as options of uv; the best match over all indexes is how pip chooses."""
        options = ["--index-strategy", "unsafe-best-match"]
        options += ["--index-url", self.index] if self.index else []
        for url in self.extra:
            options += ["--extra-index-url", url]
        for link in self.links:
            options += ["--find-links", link]
        return options


def read(environ: Mapping[str, str]) -> Sources:
    """Return pip's configuration: files and environment, merged as pip merges them."""
    done = process.run([sys.executable, "-m", "pip", "config", "list"], environ, "python3 -m ensurepip")
    return parse(done.out)


def parse(listing: str) -> Sources:
    """Return the sources in the output of `pip config list`, lines of the form level.key='value'."""
    found: dict[str, str] = {}
    for level in LEVELS:
        for line in listing.splitlines():
            name, equals, value = line.partition("=")
            where, _, key = name.rpartition(".")
            if equals and where == level and key in KEYS:
                found[key] = _text(value)
    return Sources(
        index=found.get("index-url"),
        extra=tuple(found.get("extra-index-url", "").split()),
        links=tuple(found.get("find-links", "").split()),
        certificate=found.get("cert") or None,
    )


def _text(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value
