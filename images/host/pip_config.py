"""Where packages come from: pip's own configuration, which uv does not read.

What pip reads, in which order, and what a value means: pip documentation, "Configuration".
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from images.host.errors import UserFault

# A value of a command's section replaces one of [global], and a variable PIP_... replaces both.
VARIABLES = ":env:"
SECTIONS = ("global", "install", "download", VARIABLES)
ALIASES = {"pypi-url": "index-url"}
TRUE, FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Indexes, directories of wheels and the certificate bundle that pip would use on this machine.

    With `no_index` there are no indexes, and without it an `index` of None is the usual one.
    """

    index: str | None = None
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    no_index: bool = False
    certificate: str | None = None

    def uv_options(self) -> list[str]:
        """Return the same as options of uv; the best match over all indexes is how pip chooses."""
        options = ["--index-strategy", "unsafe-best-match"]
        options += ["--no-index"] if self.no_index else []
        options += ["--index-url", self.index] if self.index else []
        for url in self.extra:
            options += ["--extra-index-url", url]
        for link in self.links:
            options += ["--find-links", link]
        return options


def read(environ: Mapping[str, str], prefix: str = sys.prefix) -> Sources:
    """Return pip's configuration: files and environment, merged as pip merges them.

    `prefix` is the directory of the Python environment. Raises UserFault for a file that pip could not read either.
    """
    return sources(merged(files(environ, prefix), environ), _home(environ))


def files(environ: Mapping[str, str], prefix: str) -> list[Path]:
    """List the files that pip would read, if they are there; a later one replaces values of an earlier one."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = _home(environ)
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    user = [home / ".pip/pip.conf", own / "pip/pip.conf"]
    if named and os.access(named, os.F_OK):
        user = []
    everybody = [*(Path(directory, "pip/pip.conf") for directory in system), Path("/etc/pip.conf")]
    return [*everybody, *user, Path(prefix, "pip.conf"), *([Path(named)] if named else [])]


def merged(paths: Iterable[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return every value that is set, by its long name without hyphens before it: index-url."""
    found: dict[tuple[str, str], str] = {}
    for path in paths:
        parsed = parse(_text(path), path)
        for section in parsed.sections():
            found |= {(section, _name(name)): value for name, value in parsed.items(section)}
    found |= {(VARIABLES, _name(name[4:])): value for name, value in environ.items() if name.startswith("PIP_")}
    return {
        name: value for wanted in SECTIONS for (section, name), value in found.items() if section == wanted and value
    }


def parse(text: str, path: Path) -> configparser.RawConfigParser:
    """Return what is written in a file; no message shows its lines, which may hold passwords."""
    parsed = configparser.RawConfigParser()
    try:
        parsed.read_string(text)
    except configparser.Error as error:
        raise _unreadable(f"{path}, line {_line(error)} ({_kind(error)})", path) from None
    return parsed


def sources(values: Mapping[str, str], home: Path) -> Sources:
    """Return the sources that values of pip's configuration name; `home` is what ~ stands for."""
    no_index = _is_true("no-index", values.get("no-index", "no"))
    return Sources(
        index=None if no_index else values.get("index-url", "").strip() or None,
        extra=() if no_index else tuple(values.get("extra-index-url", "").split()),
        links=tuple(_expanded(link, home) for link in values.get("find-links", "").split()),
        no_index=no_index,
        certificate=values.get("cert", "").strip() or None,
    )


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _name(text: str) -> str:
    name = text.lower().replace("_", "-").removeprefix("--")
    return ALIASES.get(name, name)


def _text(path: Path) -> str:
    """Return the text of a file, nothing where there is none, or where pip could not see that there is one."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(f"{path} (byte {error.start} is not UTF-8)", path) from None
    except OSError as error:
        if os.access(path, os.F_OK):
            raise _unreadable(f"{path} ({error.strerror})", path) from error
        return ""


def _unreadable(value: str, path: Path) -> UserFault:
    remedy = f"correct {path}, or set PIP_CONFIG_FILE={os.devnull} for a build without pip's files"
    return UserFault("cannot read pip's configuration", value, remedy)


def _line(error: configparser.Error) -> object:
    lines = [line for line, _ in getattr(error, "errors", ())]
    return getattr(error, "lineno", None) or (lines or ["?"])[0]


def _kind(error: configparser.Error) -> str:
    kinds = {
        configparser.DuplicateOptionError: "a key for the second time in its section",
        configparser.DuplicateSectionError: "a section for the second time",
        configparser.MissingSectionHeaderError: "a value before the first [section]",
    }
    return kinds.get(type(error), "neither a section nor `key = value`")


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in TRUE + FALSE:
        raise UserFault("pip's configuration has a value that is neither yes nor no", f"{name} = {value}", "yes or no")
    return value.lower() in TRUE


def _expanded(link: str, home: Path) -> str:
    """Return a link as pip takes it: ~ is the home directory, if that path is there."""
    path = home / link[2:]
    return str(path) if link.startswith("~/") and path.exists() else link
