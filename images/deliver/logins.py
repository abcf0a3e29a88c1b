"""Logins for registries: those that skopeo finds in podman's and Docker's files, and those of Docker's helpers."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.auth import INDEX_NAME, INDEX_URL
from docker.credentials import Store
from docker.credentials.errors import CredentialsNotFound, StoreError

from images.host.errors import WorldFault
from images.host.home import home_of
from images.oci.reference import Place

CONTAINERS = Path("containers/auth.json")  # of podman, in several directories
HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # the rest of a program's name, and no path


@dataclass(frozen=True)
class Login:
    """A user and a password, or where a registry gave one out, an identity token in place of the password."""

    user: str
    secret: str
    token: str | None = None


def find(place: Place, environ: Mapping[str, str]) -> Login | None:
    """Return the login for a repository that skopeo would take (containers-auth.json(5)), None where there is none.

    Raises WorldFault for a helper of Docker that fails.
    """
    named = environ.get("REGISTRY_AUTH_FILE")
    entry = (None if named else of_helper(place.host, environ)) or _of_files(place, _files(environ, named))
    try:
        user, colon, secret = base64.b64decode(str(entry["auth"])).decode().partition(":") if entry else ("", "", "")
    except (ValueError, KeyError):
        return None
    token = entry.get("identitytoken") if entry else None
    return Login(user, secret, str(token) if token else None) if colon else None


def _files(environ: Mapping[str, str], named: str | None) -> Sequence[Path]:
    """Return the files that may have a login; the first one that has it counts."""
    if named:
        return (Path(named),)
    home = home_of(environ) or Path("/")
    return (
        Path(environ.get("XDG_RUNTIME_DIR") or f"/run/containers/{os.getuid()}") / CONTAINERS,
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / CONTAINERS,
        Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    )


def _of_files(place: Place, files: Iterable[Path]) -> Mapping[str, Any] | None:
    """Return the entry of the longest name that a repository begins with: podman has logins for parts of a registry."""
    parts = f"{place.host}/{place.name}".split("/")
    names = ["/".join(parts[:number]) for number in range(len(parts), 0, -1)]
    if place.host == INDEX_NAME:
        names.append(INDEX_URL)
    for path in files:
        known = _read(path).get("auths")
        auths = known if isinstance(known, dict) else {}
        entries = (auths.get(name) or auths.get(f"https://{name}") for name in names)
        if found := next((entry for entry in entries if isinstance(entry, dict) and entry.get("auth")), None):
            return found
    return None


def of_helper(host: str, environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return what Docker's credential helper has for a registry, as an entry of an authfile (containers-auth.json(5)).

    None where Docker has no helper for it, or the helper no login. Raises WorldFault for one that fails.
    """
    helper = _helper(host, environ)
    if helper is None:
        return None
    program = f"docker-credential-{helper}"
    remedy = f"install {program}, or take it out of Docker's config.json"
    if shutil.which(program, path=environ.get("PATH")) is None:
        raise WorldFault("a credential helper is missing", program, remedy)
    try:
        store: Any = Store(helper, dict(environ))
        found = store.get(INDEX_URL if host == INDEX_NAME else host)
        user, secret = found["Username"], found["Secret"]
    except CredentialsNotFound:
        return None
    except (StoreError, ValueError, KeyError, TypeError):  # `from None`: what a helper answers may be a secret
        raise WorldFault("a credential helper failed", program, remedy) from None
    auth = base64.b64encode(f"{user}:{'' if user == '<token>' else secret}".encode()).decode()
    return {"auth": auth, "identitytoken": secret} if user == "<token>" else {"auth": auth}


def _helper(host: str, environ: Mapping[str, str]) -> str | None:
    """Return the name of the helper for a registry; a configuration that cannot be read is skopeo's matter."""
    directory = environ.get("DOCKER_CONFIG") or (home_of(environ) or Path("/")) / ".docker"
    config = _read(Path(directory) / "config.json")
    helpers = config.get("credHelpers")
    found = (helpers if isinstance(helpers, dict) else {}).get(host) or config.get("credsStore")
    return found if isinstance(found, str) and HELPER.fullmatch(found) else None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
