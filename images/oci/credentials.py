"""Logins from Docker's configuration: what `docker login` left there, for one registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from images.host import process
from images.host.errors import UserFault, WorldFault
from images.oci.reference import HUB

HUB_KEY = "https://index.docker.io/v1/"  # Docker's own name of Docker Hub: docker/cli, registry.IndexServer
NO_USER = "<token>"  # instead of a user: the secret is an identity token (docker-credential-helpers, README)
NOT_FOUND = "credentials not found in native keychain"  # what every helper says when it has none


@dataclass(frozen=True)
class Credentials:
    """A user and a password, or an identity token; neither is ever printed."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """Write the value of an Authorization header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def find(host: str, environ: Mapping[str, str]) -> Credentials | None:
    """Look up the login for a registry in $DOCKER_CONFIG/config.json or ~/.docker/config.json.

    A helper goes before what is written in the file. None means: nobody logged in.
    Raises UserFault for a file that cannot be read, WorldFault for a helper that fails.
    """
    path = _place(environ)
    config = _read(path)
    key = HUB_KEY if host == HUB else host
    helper = _table(config, "credHelpers", path).get(key) or config.get("credsStore")
    if helper:
        found = _ask(str(helper), key, environ)
        if found:
            return found
    for name, entry in _table(config, "auths", path).items():
        if _same(name, key) and isinstance(entry, dict):
            return parse(entry, f"{path}, entry {name}")
    return None


def _place(environ: Mapping[str, str]) -> Path:
    folder = environ.get("DOCKER_CONFIG")
    return Path(folder or Path(environ.get("HOME") or "/") / ".docker") / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserFault("cannot read Docker's configuration", f"{path} ({error.strerror})", _remedy(path)) from error
    except (ValueError, RecursionError) as error:
        raise UserFault("Docker's configuration is not JSON", path, _remedy(path)) from error
    return _object(config, "the whole", path)


def _table(config: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    return _object(config.get(key) or {}, key, path)


def _object(value: object, what: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserFault("Docker's configuration has an unknown form", f"{path} ({what})", _remedy(path))
    return value


def _remedy(path: Path) -> str:
    return f"mend {path}, or DOCKER_CONFIG with another folder"


def _same(name: str, key: str) -> bool:
    """Compare as Docker does: old entries are addresses, new ones hosts."""
    return name == key or (key != HUB_KEY and urlsplit(name if "//" in name else f"//{name}").netloc == key)


def parse(entry: Mapping[str, Any], where: str) -> Credentials | None:
    """Read an entry of `auths`: an identity token, or user:password in base64, or both as fields of their own.

    Raises UserFault, with `where` and without the secret, when it is damaged.
    """
    if token := entry.get("identitytoken"):
        return Credentials(identity=str(token))
    if not entry.get("auth"):
        user, password = entry.get("username"), entry.get("password")
        return Credentials(str(user), str(password)) if user and password else None
    try:
        login = base64.b64decode(str(entry["auth"]), validate=True).decode()
    except ValueError:
        login = ""
    name, colon, secret = login.partition(":")
    if not colon:
        raise UserFault("a login in Docker's configuration is damaged", where, "docker logout, then docker login")
    return Credentials(name, secret.rstrip("\0"))


def _ask(helper: str, key: str, environ: Mapping[str, str]) -> Credentials | None:
    program = f"docker-credential-{helper}"
    remedy = f"install {program}, or take it out of Docker's config.json"
    done = process.run([program, "get"], environ, remedy, feed=key)
    if done.code:
        if NOT_FOUND in done.out + done.err:
            return None
        raise WorldFault("a credential helper failed", f"{program} (exit code {done.code})", f"{program} list")
    try:
        said = json.loads(done.out)
        user, secret = str(said["Username"]), str(said["Secret"])
    except (ValueError, KeyError, TypeError):
        # `from None`: the text of the answer, which may hold the secret, stays out of every traceback
        raise WorldFault("a credential helper answered something unknown", program, remedy) from None
    return Credentials(identity=secret) if user == NO_USER else Credentials(user, secret)
