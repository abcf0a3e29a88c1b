"""A real registry: Debian's docker-registry on a free port; and what skopeo puts there and reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from images.store.store import default_root
from tests.support.containers import Started
from tests.support.harness import call
from tests.support.programs import list_missing, needs, say_missing

PASSWORD = "secret:word"
HTPASSWD = "user:$2b$04$hWwfVgYSXE52Wmc1eD.cC.jgLxOv/Gzl3SK6XZh.oGHdMSwPo30KW\n"  # that password
CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:0", secret: x{tls}}}
"""
TLS = ", tls: {{certificate: {certificate}, key: {key}}}"
AUTH = "auth: {{htpasswd: {{realm: ours, path: {folder}/htpasswd}}}}\n"
PROGRAMS = ("docker-registry", "skopeo")
needed = needs(*PROGRAMS)


@contextmanager
def running(folder: Path, *, locked: bool = False, certificate: Path | None = None) -> Iterator[str]:
    """Run a registry and yield host:port; skip where there is none.

    locked: it wants `user` with PASSWORD. certificate: it speaks TLS, with the key beside that.
    """
    if missing := list_missing(*PROGRAMS):
        pytest.skip(say_missing(missing))
    folder.mkdir()
    (folder / "htpasswd").write_text(HTPASSWD)
    tls = TLS.format(certificate=certificate, key=certificate.with_suffix(".key")) if certificate else ""
    more = AUTH.format(folder=folder) if locked else ""
    (folder / "config.yml").write_text(CONFIG.format(folder=folder, tls=tls) + more)
    with _started(folder / "config.yml") as host:
        yield host


def mirrored(home: Path, registry: str, mirror: str, *, insecure: bool = False) -> dict[str, str]:
    """Name a mirror of a registry in a home directory (containers-registries.conf(5)); return the variables for it."""
    place = home / ".config/containers/registries.conf"
    place.parent.mkdir(parents=True, exist_ok=True)
    also = f"insecure = {str(insecure).lower()}"
    place.write_text(f'[[registry]]\nlocation = "{registry}"\n[[registry.mirror]]\nlocation = "{mirror}"\n{also}\n')
    return {"HOME": str(home), "XDG_CACHE_HOME": str(default_root(os.environ).parent)}


@contextmanager
def _started(config: Path) -> Iterator[str]:
    child = Started(["env", "OTEL_TRACES_EXPORTER=none", "docker-registry", "serve", str(config)])
    try:
        assert child.said("listening on", 60), child.text
        match = re.search(r"listening on (127\.0\.0\.1:[0-9]+)", child.text)
        assert match
        yield match[1]
    finally:
        child.end()


def fill(source: str, target: str, *options: str) -> None:
    """Copy an image of a layout, given as DIRECTORY:TAG, into a registry; without options its digests stay."""
    command = ["skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", *(options or ("--preserve-digests",))]
    assert call([*command, f"oci:{source}", f"docker://{target}"], seconds=120).code == 0


def manifest(name: str, *options: str) -> bytes | None:
    """Return a manifest as a registry has it, or None."""
    done = call(["skopeo", "inspect", "--raw", "--tls-verify=false", *options, f"docker://{name}"])
    return done.out.encode() if done.code == 0 else None
