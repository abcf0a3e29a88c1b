"""Logins for registries: those that skopeo finds in podman's and Docker's files, and those of Docker's helpers.

Each is an entry of an authfile (containers-auth.json(5)): `auth` is user and password as HTTP's basic authentication
has them; where a registry gave one out, `identitytoken` stands for the password.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.auth import INDEX_NAME, INDEX_URL
from docker.credentials import Store
from docker.credentials.errors import CredentialsNotFound, StoreError

from images.host.errors import WorldFault
from images.host.files import home_of
from images.oci.reference import Remote

Entry = Mapping[str, str]

HUBS = ("docker.io", "index.docker.io", "registry-1.docker.io")  # names of Docker's own registry
CONTAINERS = Path("containers/auth.json")  # of podman, in several directories
HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # the rest of a program's name, and no path
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")  # what goes into a header


def find(remote: Remote, environ: Mapping[str, str]) -> Entry | None:
    """Return the login for a repository that skopeo would take, None where there is none.

    That is Docker's helper's; else the first file counts that has one, and in it the longest name that the repository
    begins with, for podman has logins for parts of a registry, before any other name of the registry itself
    (pkg/docker/config of github.com/containers/image). Raises WorldFault for a helper that fails.
    """
    if login := of_helper(remote.host, environ):
        return login
    parts = f"{remote.host}/{remote.name}".split("/")
    names = ["/".join(parts[:number]) for number in range(len(parts), 0, -1)]
    for path in _list_login_files(environ):
        known = _read_config(path).get("auths")
        auths = known if isinstance(known, dict) else {}
        of_registry = [entry for name, entry in auths.items() if _registry(name) == _registry(remote.host)]
        if entry := next(filter(_is_login, (*map(auths.get, names), *of_registry)), None):
            return {name: str(entry[name]) for name in ("auth", "identitytoken") if entry.get(name)}
    return None


def _registry(name: str) -> str:
    """Return the registry that a name of a login means: one with a scheme means all of a host, whatever its path."""
    bare = name.removeprefix("http://").removeprefix("https://")
    host = bare if bare == name else bare.partition("/")[0]
    return INDEX_NAME if host in HUBS else host


def _list_login_files(environ: Mapping[str, str]) -> Sequence[Path]:
    """Return the files that may have a login, in their order."""
    if named := environ.get("REGISTRY_AUTH_FILE"):
        return (Path(named),)
    home = home_of(environ)
    return (
        Path(environ.get("XDG_RUNTIME_DIR") or f"/run/containers/{os.getuid()}") / CONTAINERS,
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / CONTAINERS,
        _of_docker(environ),
    )


def _of_docker(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or home_of(environ) / ".docker") / "config.json"


def _is_login(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(BASE64.fullmatch(str(entry.get("auth") or "")))


def of_helper(host: str, environ: Mapping[str, str]) -> Entry | None:
    """Return the login that Docker's credential helper has for a registry.

    None where Docker has no helper for it, the helper no login, or REGISTRY_AUTH_FILE names the only file that counts.
    Raises WorldFault for a helper that is missing or fails.
    """
    helper = None if environ.get("REGISTRY_AUTH_FILE") else _helper(host, environ)
    if helper is None:
        return None
    program = f"docker-credential-{helper}"
    remedy = f"install {program}, or take it out of Docker's config.json"
    if shutil.which(program, path=environ.get("PATH")) is None:
        raise WorldFault("a credential helper is missing", program, remedy)
    try:
        store: Any = Store(helper, dict(environ))
        login = store.get(INDEX_URL if host == INDEX_NAME else host)
        user, secret = login["Username"], login["Secret"]
    except CredentialsNotFound:
        return None
    except (StoreError, ValueError, KeyError, TypeError):  # `from None`: what a helper answers may be a secret
        raise WorldFault("a credential helper failed", program, remedy) from None
    auth = base64.b64encode(f"{user}:{'' if user == '<token>' else secret}".encode()).decode()
    return {"auth": auth, "identitytoken": secret} if user == "<token>" else {"auth": auth}


def _helper(host: str, environ: Mapping[str, str]) -> str | None:
    """Return the name of the helper for a registry; a configuration that cannot be read is skopeo's matter."""
    config = _read_config(_of_docker(environ))
    helpers = config.get("credHelpers")
    name = (helpers if isinstance(helpers, dict) else {}).get(host) or config.get("credsStore")
    return name if isinstance(name, str) and HELPER.fullmatch(name) else None


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
