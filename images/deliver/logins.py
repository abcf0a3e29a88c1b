"""Logins that skopeo does not find itself: it reads podman's and Docker's files, and not Docker's `credsStore`."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.auth import INDEX_NAME, INDEX_URL
from docker.credentials import Store
from docker.credentials.errors import CredentialsNotFound, StoreError

from images.host.errors import WorldFault
from images.host.home import home_of

HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # the rest of a program's name, and no path


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
    try:
        config = json.loads((Path(directory) / "config.json").read_bytes())
        found = (config.get("credHelpers") or {}).get(host) or config.get("credsStore")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) and HELPER.fullmatch(found) else None
