"""The Docker daemon: what names it, and how Docker's SDK reaches it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import docker
from docker.errors import DockerException, TLSParameterError
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env, parse_host

from images.deliver import docker_config
from images.host.download import reason
from images.host.errors import UserFault

SOCKET = "/var/run/docker.sock"  # where nothing names another one
JOIN = "join the group docker (sudo usermod -aG docker $USER, then log in again)"  # which may write to SOCKET
NO_CONTEXT = "unset DOCKER_CONTEXT, or docker context use default"
FILES = ("ca.pem", "cert.pem", "key.pem")  # what a directory of certificates has, a context's maybe not all


class Tls(NamedTuple):
    """What a context has for TLS: the directory of its certificates, and whether the daemon's own is checked."""

    directory: Path
    verify: bool = True


class Daemon(NamedTuple):
    """The address of a Docker daemon, what names it, and the TLS of a context; else the environment says that."""

    address: str
    named_by: str
    tls: Tls | None = None

    @property
    def instead(self) -> str:
        """Return how the usual socket is used instead."""
        return "unset DOCKER_HOST" if self.named_by.startswith("DOCKER_HOST=") else NO_CONTEXT


class Denied(NamedTuple):
    """Why a user cannot use a socket, and what helps."""

    why: str
    remedy: str


class Client(docker.DockerClient):
    """Docker's SDK, with the daemon's own certificates where REQUESTS_CA_BUNDLE names those of other servers."""

    def __init__(self, **options: Any) -> None:
        self.api = _Api(**options)


class _Api(docker.APIClient):
    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Put the daemon's own certificates before those of the environment."""
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)


def named(environ: Mapping[str, str]) -> Daemon | None:
    """Return where the command `docker` finds its daemon: DOCKER_HOST, else a context; None for the usual socket.

    Raises UserFault for an address that cannot be used here, and for a context that is not there.
    """
    if address := environ.get("DOCKER_HOST"):
        return Daemon(_checked(address, "DOCKER_HOST"), f"DOCKER_HOST={address}")
    name = environ.get("DOCKER_CONTEXT") or docker_config.current_context(environ)
    if name in ("", "default"):
        return None
    key = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    contexts = docker_config.path(environ).parent / "contexts"
    try:
        endpoint = json.loads((contexts / "meta" / key / "meta.json").read_bytes())["Endpoints"]["docker"]
        address, skips = str(endpoint["Host"]), endpoint.get("SkipTLSVerify") is True
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        remedy = f"docker context ls shows them; {NO_CONTEXT}"
        raise UserFault("there is no such context of Docker", repr(name), remedy) from error
    tls = Tls(contexts / "tls" / key / "docker", verify=not skips)
    return Daemon(_checked(address, f"context {name}"), f"context {name}: {address}", tls)


def connect(found: Daemon | None, environ: Mapping[str, str], seconds: int) -> Client:
    """Return the client of a daemon, which has answered once, within so many seconds.

    Raises DockerException or OSError when it does not answer, other errors when Docker's configuration is damaged.
    """
    options: Mapping[str, Any]
    if found and found.tls:
        options = {"base_url": found.address, "tls": _of_context(found.tls)}
    else:
        options = kwargs_from_env({**environ, "DOCKER_HOST": found.address if found else ""})
    client = Client(timeout=seconds, **options)
    client.ping()
    return client


def _of_context(tls: Tls) -> TLSConfig | bool:
    """Return what a context has for TLS as the SDK takes it; a context with none of it is spoken to without."""
    ca, cert, key = (str(path) if path.is_file() else None for path in map(tls.directory.joinpath, FILES))
    if tls.verify and not (ca or cert or key):
        return False
    return TLSConfig(client_cert=(cert, key) if cert and key else None, ca_cert=ca, verify=tls.verify)


def silence(found: Daemon | None, error: Exception, environ: Mapping[str, str]) -> str:
    """Return which daemon was named, and in a few words why it was not reached; nothing where nothing names one."""
    why = reason(error)
    if isinstance(error, TLSParameterError):
        why = f"not all of {', '.join(FILES)} in {environ.get('DOCKER_CERT_PATH') or '~/.docker'}"
    return f"{found.named_by} ({why})" if found else ""


def denied(found: Daemon | None) -> Denied | None:
    """Return why this user cannot use the socket; None if it can. A daemon that nothing names has the usual one."""
    scheme, _, path = found.address.partition("://") if found else ("unix", "", SOCKET)
    if scheme != "unix" or not os.access(path, os.F_OK) or os.access(path, os.W_OK):
        return None
    why = f"permission denied on {path}"
    if found is None or os.path.realpath(path) == os.path.realpath(SOCKET):
        return Denied(why, JOIN)
    return Denied(why, f"chmod or chown it, or {found.instead}")


def _checked(address: str, named_by: str) -> str:
    try:
        known = str(parse_host(address)).startswith(("http://", "https://", "http+unix://"))
    except (DockerException, ValueError):
        known = False
    if not known:
        remedy = "unix:///PATH or tcp://HOST:PORT; for ssh: ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST"
        fact = "that is no address of a Docker daemon that can be used here"
        raise UserFault(fact, f"{named_by} {address!r}", f"{remedy} and unix:///tmp/docker.sock; or --no-load")
    return address


def warn_of_zstd(client: Any, compression: str, say: Callable[[str], None]) -> None:
    """Say where the Docker here cannot pull what is pushed; `client` is None where no Docker was asked.

    Layers in zstd came with 23.0 (moby/moby, release notes of 23.0.0, #41759). Podman behind Docker's socket is no
    "Engine".
    """
    if client is None or compression == "gzip":
        return
    try:
        parts = client.version().get("Components") or []
    except (DockerException, OSError):
        return
    release = next((str(part.get("Version")) for part in parts if part.get("Name") == "Engine"), "")
    major = re.match(r"[0-9]{1,4}(?=\.)", release)
    if major and int(major[0]) < 23:
        say(f"note: Docker before 23.0 cannot pull layers in zstd, as the one here ({release}); --compression gzip")
