"""Docker, through its own client: load an image, run a command in it, save one of its images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.context.config import get_current_context_name
from docker.errors import DockerException, NotFound
from docker.types import LogConfig
from requests import RequestException

from images.host import process
from images.host.background import background
from images.host.errors import UserFault, WorldFault
from images.oci.image import Image, archived_manifest, file_archive, stream_archive
from images.oci.manifest import digest_of
from images.store.download import reason
from images.store.store import Store

GIVEN = "/given"  # in a container
SOCKET = "/var/run/docker.sock"  # where nothing names another one
JOIN = "join the group docker (sudo usermod -aG docker $USER, then log in again)"  # which may write to SOCKET
PATIENCE = 600  # seconds: for an answer of a daemon that has answered once
CONTAINERD = ["driver-type", "io.containerd.snapshotter.v1"]  # how `docker info` tells containerd's store of images


def connect_docker(environ: Mapping[str, str], seconds: int) -> Docker | None:
    """Return the Docker that the command `docker` would use: DOCKER_HOST, else a context, else the usual socket.

    None where nothing names one, and none is there. Raises a Fault for one that does not answer within so many seconds.
    """
    named = environ.get("DOCKER_HOST") or environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if named == "default" and not Path(SOCKET).exists():
        return None
    try:
        client = DockerClient.from_env(timeout=seconds, environment=dict(environ))
        client.api.trust_env = False  # proxies and certificates of the environment are those of other servers
        client.ping()
    except (DockerException, OSError) as error:
        why, place = reason(error), SOCKET if named == "default" else named
        remedy = JOIN if "ermission denied" in why else "start it, or unset DOCKER_HOST and DOCKER_CONTEXT"
        raise WorldFault("Docker cannot be used", f"{place} ({why})", remedy) from error
    except Exception:  # the client lets errors of many kinds through, some with a login in them
        raise UserFault("Docker's configuration is damaged", named, "correct ~/.docker/config.json") from None
    client.api.timeout = PATIENCE
    return Docker(client)


class Docker:
    """A Docker that has answered."""

    name = "docker"

    def __init__(self, client: Any) -> None:
        self._client = client

    def load(self, image: Image, store: Store) -> None:
        """Load an image; what Docker has already is not sent again."""
        try:
            loaded = self._find_loaded(image) or self._load_image(image, store)
            for tag in image.tags:
                loaded.tag(*tag.rsplit(":", 1))
        except (DockerException, OSError) as error:
            remedy = "read its log; a full disk is the usual cause (docker system df); --output FILE keeps the image"
            raise WorldFault("docker could not load the image", str(error).strip()[:300], remedy) from error

    def run(
        self, image: Image, command: Sequence[str], given: Path | None = None, out: Path | None = None
    ) -> str | None:
        """Run a command in a container of a loaded image, as Engine has it."""
        loaded = self._find_loaded(image)
        try:
            words = [*command, GIVEN] if given else command
            with background() as beside, self._container(loaded.id if loaded else image.tag, words) as container:
                if given:
                    container.put_archive("/", file_archive(GIVEN.lstrip("/"), given))
                streams = container.attach(stdout=True, stderr=True, stream=True, demux=True)
                text = beside(lambda: _gather(streams, out))  # who writes much waits for a reader
                container.start()
                code = container.wait()["StatusCode"]
                lines = text.result().decode(errors="replace").strip().splitlines()
        except (DockerException, OSError) as error:
            raise WorldFault("docker could not start the image", str(error)[:300], "docker run it by hand") from error
        return (lines or ["?"])[-1] if code else None

    def save(self, name: str, path: Path) -> bool:
        """Save an image as an archive at `path`; return False where Docker does not have it."""
        try:
            with path.open("wb") as file:
                file.writelines(self._client.images.get(name).save(named=True))
        except NotFound:
            return False
        except (DockerException, RequestException) as error:  # an OSError of another kind is that of the disk
            raise WorldFault("docker could not save the image", str(error)[:300], "docker save it by hand") from error
        return True

    def _load_image(self, image: Image, store: Store) -> Any:
        """Send an image; return it as Docker has it then."""
        if present := self._count_present(image):
            with suppress(DockerException, OSError):  # a Docker that insists on every layer gets every layer
                self._client.images.load(stream_archive(image, store, skip=present))
        if not self._find_loaded(image):
            self._client.images.load(stream_archive(image, store))
        return self._find_loaded(image) or self._client.images.get(image.id)  # which says that there is none

    def _find_loaded(self, image: Image) -> Any:
        """Return the image as Docker has it, None where it does not.

        Docker's own store knows an image by its configuration, containerd's by its manifest.
        """
        for known in (image.id, digest_of(archived_manifest(image))):
            with suppress(DockerException, OSError):
                if (loaded := self._client.images.get(known)).id == known:
                    return loaded
        return None

    def _count_present(self, image: Image) -> int:
        """Count the lowest layers that some image in Docker has already: `docker load` does not open those.

        Return 0 for containerd's store: an image may be there without the tars of its layers, and a load does not say.
        """
        diff_ids = [f"sha256:{layer.written.diff_id}" for layer in image.layers]
        try:
            if CONTAINERD in (self._client.info().get("DriverStatus") or []):
                return 0
            known = [other.attrs["RootFS"].get("Layers") or [] for other in self._client.images.list()]
        except (DockerException, OSError):
            return 0
        return max((_count_common(diff_ids, layers) for layers in known), default=0)

    @contextmanager
    def _container(self, image: str, command: Sequence[str]) -> Iterator[Any]:
        """Make a container that Docker removes when it ends, also after a kill -9; an interrupt ends it."""
        container = None
        try:
            with process.uninterrupted():
                container = self._client.containers.create(
                    image, list(command[1:]), entrypoint=command[0], network_mode="none", auto_remove=True,
                    cap_drop=["ALL"], security_opt=["no-new-privileges"], log_config=LogConfig(type="none"),
                )  # fmt: skip
            yield container
        finally:
            if container:
                with suppress(DockerException, OSError):  # Docker was faster
                    container.remove(force=True)


def _gather(streams: Iterable[tuple[bytes | None, bytes | None]], out: Path | None) -> bytes:
    """Write what a command says to `out`, and return what it says on stderr."""
    errors = b""
    with (out or Path(os.devnull)).open("wb") as file:
        for output, error in streams:
            file.write(output or b"")
            errors += error or b""
    return errors


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
