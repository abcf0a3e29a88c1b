"""An empty registry on loopback (Debian's docker-registry), and how much is stored in it."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from images.host.errors import UserFault, WorldFault

MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


@contextlib.contextmanager
def running(work: Path) -> Iterator[str]:
    """Run an empty registry on a free port of loopback; yield its address."""
    data = work / "registry"
    shutil.rmtree(data, ignore_errors=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = work / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {data}}}}}\n"
        f"http: {{addr: '{address}'}}\n"
    )
    try:
        child = subprocess.Popen(
            ["docker-registry", "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise UserFault("a program is missing", "docker-registry", "apt-get install docker-registry skopeo") from error
    try:
        await_answer(address, child)
        yield address
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def await_answer(address: str, child: subprocess.Popen[bytes]) -> None:
    """Wait until the registry answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
            return
        except OSError as error:
            if child.poll() is not None or time.monotonic() > deadline:
                raise WorldFault("the registry did not start", address, "run docker-registry by hand") from error
            time.sleep(0.1)


def stored(work: Path) -> int:
    """Return the bytes of everything in the registry."""
    files = (work / "registry").rglob("data")
    return sum(path.stat().st_size for path in files if path.is_file())


def layers(address: str, name: str, tag: str) -> list[int]:
    """Return the compressed sizes of an image's layers in the registry, in bytes."""
    request = urllib.request.Request(f"http://{address}/v2/{name}/manifests/{tag}", headers={"Accept": MANIFESTS})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [layer["size"] for layer in json.load(answer)["layers"]]
