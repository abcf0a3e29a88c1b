"""Docker's configuration: logins to registries, of which Docker's SDK knows the forms."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.auth import AuthConfig, resolve_index_name
from docker.errors import DockerException

from images.host.disk.home import home_of
from images.host.errors import UserFault, WorldFault

VARIABLE = "DOCKER_AUTH_CONFIG"  # holds the text of such a file, of which only `auths` counts
HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # the rest of a program's name, and no path

Place = Path | str  # of the configuration: a file, or VARIABLE


def login(host: str, environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return the login for a registry as an entry of an authfile (containers-auth.json(5)), or None for nobody.

    Docker's configuration is $DOCKER_CONFIG/config.json or ~/.docker/config.json; the logins of $DOCKER_AUTH_CONFIG go
    before it, as for Docker 28.3.
    Raises UserFault for one that cannot be read, WorldFault for a credential helper that fails.
    """
    found, trouble = None, None
    if text := environ.get(VARIABLE):
        try:
            found = _login(host, {"auths": _table(_parsed(text, VARIABLE), "auths", VARIABLE)}, VARIABLE, environ)
        except UserFault as fault:  # `docker` takes the configuration then
            trouble = fault
    place = path(environ)
    found = found or _login(host, _read(place), place, environ)
    if trouble and not found:
        raise trouble
    return found


def _login(host: str, config: Mapping[str, Any], place: Place, environ: Mapping[str, str]) -> dict[str, str] | None:
    # The entries of other registries are left out: only the one that is needed has to be sound.
    logins = {
        name: _with_auth(entry) for name, entry in _table(config, "auths", place).items() if _is_of(name, entry, host)
    }
    helpers = _without_empty(
        {"credHelpers": _without_empty(_table(config, "credHelpers", place)), "credsStore": config.get("credsStore")}
    )
    try:
        known = AuthConfig({"auths": AuthConfig.parse_auth(logins), **helpers}, credstore_env=dict(environ))
    except (ValueError, TypeError):
        fact, value = "a login in Docker's configuration is damaged", f"{place}, entry {', '.join(logins)}"
        remedy = remedy_for(place) if place == VARIABLE else "docker logout, then docker login"
        raise UserFault(fact, value, remedy) from None  # the cause may hold the secret
    return _entry(_resolve(known, host, environ))


def current_context(environ: Mapping[str, str]) -> str:
    """Return the name of the context that the configuration chooses; empty where it chooses none."""
    try:
        name = _read(path(environ)).get("currentContext")
    except UserFault:  # whoever needs a login says so; `docker` goes on without, too
        return ""
    return name if isinstance(name, str) else ""


def path(environ: Mapping[str, str]) -> Path:
    """Return Docker's configuration file, which need not be there."""
    directory = environ.get("DOCKER_CONFIG")
    return Path(directory or home_of(environ) / ".docker") / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserFault("cannot read Docker's configuration", f"{path} ({error.strerror})", remedy_for(path)) from error
    return _parsed(text, path)


def _parsed(text: str | bytes, place: Place) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserFault("Docker's configuration is not JSON", place, remedy_for(place)) from error
    return _object(config, "the whole", place)


def _table(config: Mapping[str, Any], key: str, place: Place) -> dict[str, Any]:
    return _object(config.get(key) or {}, key, place)


def _object(value: object, what: str, place: Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserFault("Docker's configuration has an unknown form", f"{place} ({what})", remedy_for(place))
    return value


def remedy_for(place: Place) -> str:
    """Return what helps where the configuration at a place cannot be used."""
    other = "unset it" if place == VARIABLE else "set DOCKER_CONFIG to another directory"
    return f"correct {place}, or {other}"


def _is_of(name: str, entry: object, host: str) -> bool:
    return isinstance(entry, dict) and resolve_index_name(name) == host


def _without_empty(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty fields, which stand for nothing."""
    return {key: value for key, value in entry.items() if value}


def _with_auth(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a login as Docker writes it; people write `username` and `password`, which Docker takes, too."""
    stated = _without_empty(entry)
    user, password = stated.get("username"), stated.get("password")
    if "auth" in stated or not (isinstance(user, str) and isinstance(password, str)):
        return stated
    return {**stated, "auth": _encode(f"{user}:{password}")}


def _resolve(known: AuthConfig, host: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    helper = known.get_credential_store(host)
    if helper and (not isinstance(helper, str) or not HELPER.fullmatch(helper)):  # it would be run, or shown
        place = path(environ)
        raise UserFault(
            "Docker's configuration has an unknown form", f"{place} (a credential helper)", remedy_for(place)
        )
    program = f"docker-credential-{helper}"
    remedy = f"install {program}, or take it out of Docker's config.json"
    if helper and shutil.which(program, path=environ.get("PATH")) is None:
        raise WorldFault("a credential helper is missing", program, remedy)
    # `from None`: what a helper answers may be a secret, which stays out of every traceback
    try:
        return known.resolve_authconfig(host) or {}
    except DockerException:
        raise WorldFault("a credential helper failed", program, f"{program} list") from None
    except (ValueError, KeyError, TypeError):
        raise WorldFault("a credential helper answered something unknown", program, remedy) from None


def _entry(found: Mapping[str, str]) -> dict[str, str] | None:
    """Write what the SDK found as an authfile has it; an identity token wants a user's name beside it, any."""
    if token := found.get("IdentityToken"):
        return {"auth": _encode("<token>:"), "identitytoken": str(token)}
    user, password = (found.get(name) or found.get(name.lower()) for name in ("Username", "Password"))
    return {"auth": _encode(f"{user}:{password}")} if user and password else None


def _encode(text: str) -> str:
    return base64.b64encode(text.encode(errors="replace")).decode()
