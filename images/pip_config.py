"""Where packages come from, and which certificates are trusted: pip's own configuration, which uv does not read."""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from os.path import commonpath
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit, urlunsplit

from images.host.errors import UserFault, require_text
from images.host.files import home_of

# By requests' order, then Go's and uv's own.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
TRUST = "set REQUESTS_CA_BUNDLE, or `cert` of pip's configuration, to the file of the authority's certificate"


def usual(environ: Mapping[str, str]) -> str | None:
    """Return the file or directory of the first variable that is set, None for the system's own."""
    return next(filter(None, map(environ.get, BUNDLES)), None)


def trusted(environ: Mapping[str, str], certificate: str | None) -> dict[str, str]:
    """Return the variables that give skopeo and uv the certificates that requests and pip trust.

    `certificate` is pip's: a file, or a directory as `openssl rehash` makes it.
    """
    file = certificate or usual(environ)
    bundle = Path(file).absolute() if file else None
    return {"SSL_CERT_DIR" if bundle.is_dir() else "SSL_CERT_FILE": str(bundle)} if bundle else {}


# Where packages come from: pip's own configuration, which uv does not read.
#
# What pip reads, in which order, and what a value means: pip documentation, "Configuration".

# A value of a command's section replaces one of [global], and a variable PIP_... replaces both.
VARIABLES = ":env:"
SECTIONS = ("global", "install", "download", VARIABLES)
PLACES, PROXIES = ("http", "https", "file"), ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
TRUE, FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Indexes and directories of wheels that pip would use on this machine, and how it would reach their servers.

    With `no_index` there are no indexes, and without it an `index` of None is the usual one. Addresses may have a user
    and a password. `certificate` and `client_certificate` are files, None the usual ones and none; without one of pip's
    it is that of the first variable that is set, for choosing packages and for downloading them. `trusted` are the
    hosts, HOST or HOST:PORT, from which pip accepts any certificate, or none at all.
    """

    index: str | None = None
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    no_index: bool = False
    certificate: str | None = None
    client_certificate: str | None = None
    proxy: str | None = None
    trusted: tuple[str, ...] = ()

    def login(self, url: str) -> tuple[str, str] | None:
        """Return user and password for an address: its own, or those of the index on the same server.

        Of several indexes on one server it is the one with the longest common path, as pip has it.
        """
        if login := _login(url):
            return login
        same = [place for place in self.places if _login(place) and _server(place) == _server(url)]
        return _login(max(same, key=lambda place: len(commonpath([_url_path(place), _url_path(url)])), default=""))

    def is_secure(self, url: str) -> bool:
        """Return whether pip would ask there: not over plain HTTP, but for this machine and the trusted hosts."""
        if urlsplit(url).scheme != "http" or _is_loopback(urlsplit(url).hostname or ""):
            return True
        _, host, port = _server(url)
        trusted = [_server(f"//{name}") for name in self.trusted]
        return any(known == host and only in (None, port) for _, known, only in trusted)

    def refuse_insecure(self) -> None:
        """Raise UserFault for a place that pip would not ask either."""
        if insecure := [place for place in self.places if not self.is_secure(place)]:
            fact = "an index would be asked over plain HTTP, where anybody on the way can change its answers"
            raise UserFault(fact, ", ".join(insecure), "https://..., or that host in pip's trusted-host")

    @property
    def places(self) -> tuple[str, ...]:
        """Return every address and directory that is named."""
        return (*((self.index,) if self.index else ()), *self.extra, *self.links)


def without_login(url: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def check_addresses(
    name: str, urls: Iterable[str], remedy: str = "https://HOST/PATH", schemes: Collection[str] = PLACES
) -> None:
    """Raise UserFault for the first address that cannot be read, or is no address; `name` is what the user calls it.

    What has no scheme may be a path. uv leaves out an index that it cannot read, such as one in quotes.
    """
    for url in urls:
        try:
            parts = urlsplit(url)
            (parts.hostname or "").encode("idna")  # raises ValueError, as does a port that is none
            _ = parts.port
            is_address = parts.scheme in schemes and (parts.hostname or parts.scheme == "file")
            if ("://" in url and not is_address) or re.search('^[\'"]|["<>\\s][^@]*$', url):
                raise ValueError(url)
        except ValueError:
            raise UserFault("that is not an address", _show_setting(name, url), remedy) from None


def _show_setting(name: str, url: str) -> str:
    """Return a setting for a message: before an @ may be a password, and after a colon one whose @ is missing."""
    shown = re.sub("//([^/:]*):[^/]*", r"//\1:...", url.rpartition("@")[2])
    return f"{name} {shown.removeprefix('//') if shown.strip() else repr(shown)}"


def require_indexes(name: str, indexes: Iterable[str]) -> None:
    """Raise UserFault for an index that is neither an address nor a directory here; `name` is what the user calls it.

    uv would go on without it, and take its packages from another index, where anybody can have their names.
    """
    check_addresses(name, indexes)
    for place in indexes:
        if local_path(place) and not directories([place]):
            fact = "an index is neither an address nor a directory that is there"
            raise UserFault(fact, _show_setting(name, place), "https://HOST/PATH, or the path of that directory")


def directories(links: Iterable[str]) -> list[Path]:
    """Return those of pip's links that are directories on this machine, and open to this user."""
    places = filter(None, map(local_path, links))
    return [place for place in places if os.path.isdir(place)]  # noqa: PTH112 - is_dir() raises where it may not look


def is_absent(link: str) -> bool:
    """Return whether one of pip's links is a place on this machine that is not there, as far as this user can see."""
    place = local_path(link)
    return place is not None and not os.access(place, os.F_OK)


def local_path(link: str) -> Path | None:
    """Return the place of a link on this machine, None for an address elsewhere."""
    if link.startswith("file:"):
        return Path(os.fsdecode(unquote_to_bytes(urlsplit(link).path)))
    return None if "://" in link else Path(link)


def read_sources(environ: Mapping[str, str], prefix: str = sys.prefix) -> Sources:
    """Return pip's configuration: files and environment, merged as pip merges them.

    `prefix` is the directory of the Python environment. Raises UserFault for a file that pip could not read either, and
    for certificates that are not there: uv would go on without them.
    """
    sources = make_sources(merged(list_files(environ, prefix), environ), home_of(environ))
    sources = replace(sources, certificate=sources.certificate or usual(environ))
    for path in filter(None, (sources.certificate, sources.client_certificate)):
        if not Path(path).exists():
            raise UserFault("there are no such certificates", path, TRUST)
    return sources


def list_files(environ: Mapping[str, str], prefix: str) -> list[Path]:
    """List the files that pip would read, if they are there; a later one replaces values of an earlier one."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = home_of(environ)
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    user = [home / ".pip/pip.conf", config_home / "pip/pip.conf"]
    if named and os.access(named, os.F_OK):
        user = []
    everybody = [*(Path(directory, "pip/pip.conf") for directory in system), Path("/etc/pip.conf")]
    return [*everybody, *user, Path(prefix, "pip.conf"), *([Path(named)] if named else [])]


def merged(paths: Iterable[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return every value that is set, by its long name without hyphens before it: index-url."""
    values: dict[tuple[str, str], str] = {}
    for path in paths:
        parsed = parse_file(_read_text(path), path)
        for section in parsed.sections():
            values |= {(section, _normalize_name(name)): value for name, value in parsed.items(section)}
    variables = {name: value for name, value in environ.items() if name.startswith("PIP_")}
    for name, value in variables.items():
        require_text(value, name)  # it may be a password
    values |= {(VARIABLES, _normalize_name(name[4:])): value for name, value in variables.items()}
    return {
        name: value for wanted in SECTIONS for (section, name), value in values.items() if section == wanted and value
    }


def parse_file(text: str, path: Path) -> configparser.RawConfigParser:
    """Return what is written in a file; no message shows its lines, which may hold passwords."""
    if "\0" in text:  # no variable of a program can have it
        raise _unreadable(f"{path} (a NUL byte)", path)
    parsed = configparser.RawConfigParser()
    try:
        parsed.read_string(text)
    except configparser.Error as error:
        raise _unreadable(f"{path} ({type(error).__name__})", path) from None
    return parsed


def make_sources(values: Mapping[str, str], home: Path) -> Sources:
    """Return the sources that values of pip's configuration name; `home` is what ~ stands for."""
    no_index = _is_true("no-index", values.get("no-index", "no"))
    index = "" if no_index else values.get("index-url", "").strip()
    extra = [] if no_index else values.get("extra-index-url", "").split()
    links = values.get("find-links", "").split()
    proxy, trusted = values.get("proxy", "").strip(), values.get("trusted-host", "").split()
    require_indexes("index-url", [index] if index else [])
    require_indexes("extra-index-url", extra)
    check_addresses("find-links", links)
    check_addresses("proxy", [proxy], "http://HOST:PORT", PROXIES)
    check_addresses("trusted-host", [f"//{host}" for host in trusted], "HOST or HOST:PORT")
    return Sources(
        index=index or None,
        extra=tuple(extra),
        links=tuple(_at_home(link, home) for link in links),
        no_index=no_index,
        certificate=_at_home(values.get("cert", "").strip(), home) or None,
        client_certificate=_at_home(values.get("client-cert", "").strip(), home) or None,
        proxy=proxy or None,
        trusted=tuple(trusted),
    )


def _at_home(path: str, home: Path) -> str:
    """Return a path with the home directory for its ~."""
    return str(home / path[2:]) if path.startswith("~/") else path


def _login(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    return (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url_path(url: str) -> str:
    return f"/{urlsplit(url).path.lstrip('/')}"


def _normalize_name(text: str) -> str:
    return text.lower().replace("_", "-").removeprefix("--")


def _read_text(path: Path) -> str:
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


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in TRUE + FALSE:
        raise UserFault("pip's configuration has a value that is neither yes nor no", f"{name} = {value}", "yes or no")
    return value.lower() in TRUE
