"""Docker and podman: find the one that runs here, load an image, run a command in it, save one of its images."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from docker.errors import DockerException, NotFound
from requests import RequestException

from images.deliver import daemon, docker_config, podman
from images.host import process
from images.host.context import background
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.model import Image
from images.oci.archive import archive, archived_manifest
from images.oci.manifest import digest_of

# What to do where no engine answers.
START = "start Docker (or install podman)"
MAKE_WORK = "make `podman info` work"
KEEP = "--output FILE"
NONE = "no Docker, no podman"
PATIENCE = 600  # seconds: for an answer of an engine that has answered once
# What Docker says of an image with more layers than its own store takes (moby, layer/layer_store.go, maxLayerDepth).
TOO_DEEP, DEEPEST = "max depth exceeded", 125
CONTAINERD = ["driver-type", "io.containerd.snapshotter.v1"]  # how `docker info` tells containerd's store of images


@dataclass(frozen=True)
class Engine:
    """Docker through its socket (`client`), or podman by its command (`client` None), in this environment."""

    name: str
    environ: Mapping[str, str]
    client: Any = None


class Search(NamedTuple):
    """The engine that was found, or None; why podman does not work, and why Docker's socket is closed to this user.

    `silent` says which Docker daemon was named and not reached, and why; it is empty where nothing names one.
    """

    engine: Engine | None
    unusable: str | None = None
    denied: daemon.Denied | None = None
    silent: str = ""

    @property
    def closed(self) -> str:
        """Return why an engine that is there cannot be asked; empty where there is none."""
        return "; ".join(filter(None, (self.denied and self.denied.why, self.unusable)))

    @property
    def remedy(self) -> str:
        """Return what to do where no engine was found."""
        return self.denied.remedy if self.denied else MAKE_WORK if self.unusable else START


def find(environ: Mapping[str, str], seconds: int = 10) -> Engine | None:
    """Return a running Docker that answers within so many seconds; else a podman that works, else None.

    Raises UserFault when an address or Docker's configuration is wrong.
    """
    return search(environ, seconds).engine


def search(environ: Mapping[str, str], seconds: int = 10) -> Search:
    """Return what `find` does, and why an engine that is there is not taken.

    Raises UserFault as `find` does.
    """
    named = daemon.named(environ)
    try:
        client = daemon.connect(named, environ, seconds)
        client.api.timeout = PATIENCE
        return Search(Engine("docker", environ, client))
    except (DockerException, OSError) as error:
        denied, has_podman = daemon.denied(named), shutil.which("podman", path=environ.get("PATH"))
        unusable = podman.refusal(environ, seconds) if has_podman else None
        found = None if unusable or not has_podman else Engine("podman", environ)
        return Search(found, unusable, denied, daemon.silence(named, error, environ))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        place = docker_config.path(environ)
        fault = UserFault("Docker's configuration is damaged", place, docker_config.remedy_for(place))
        raise fault from None  # the cause may hold a login


def choose(
    asked: bool | None, environ: Mapping[str, str], say: Callable[[str], None], *, elsewhere: bool = False
) -> Engine | None:
    """Return the engine to load into, as asked: one that must be there (True), none (False), any that is there (None).

    An image that is kept nowhere is said to be, unless it goes `elsewhere` too.
    Raises Fault when there has to be an engine and is none.
    """
    if asked is False:
        return None
    found = search(environ)
    if engine := found.engine:
        if found.silent:
            say(f"note: no Docker daemon answers, it goes into {engine.name}: {found.silent}")
        return engine
    why = "; ".join(filter(None, ("" if found.denied else found.silent, found.closed))) or NONE
    if asked:
        raise Fault("no engine to load the image into", why, f"{found.remedy}, or --no-load {KEEP}")
    if not elsewhere:
        say(f"note: no engine answers, the image is kept nowhere: {why}; {found.remedy}, or {KEEP}")
    elif found.silent or found.unusable:
        say(f"note: no engine answers, the image is not loaded: {why}")
    return None


def answers(environ: Mapping[str, str]) -> bool:
    """Return whether an engine answers soon."""
    try:
        return find(environ, seconds=5) is not None
    except UserFault:
        return False


def load(engine: Engine, image: Image, store: Store) -> None:
    """Load an image into an engine; what the engine has already is not sent again.

    Raises WorldFault when the engine refuses it.
    """
    if engine.client is None:
        return podman.load(engine.environ, image, store)
    try:
        found = _found(engine, image) or _sent(engine, image, store)
        for tag in image.tags:
            found.tag(*tag.rsplit(":", 1))
    except (DockerException, OSError) as error:
        raise _not_loaded(image, str(error).strip()[:300]) from error
    return None


def _not_loaded(image: Image, said: str) -> WorldFault:
    """Return the fault of an image that Docker refuses."""
    fact = "docker could not load the image"
    if TOO_DEEP not in said:
        return WorldFault(fact, said, "read the engine's log; a full disk is the usual cause (docker system df)")
    own = sum(layer.packed is None for layer in image.layers)
    remedy = f"a --base of at most {DEEPEST - own} layers, since Docker takes {DEEPEST}; or --no-load {KEEP}"
    return WorldFault(fact, f"it has {len(image.layers)} layers ({said})", remedy)


def _sent(engine: Engine, image: Image, store: Store) -> Any:
    """Send an image; return it as the engine has it then."""
    if present := _count_present(engine, image):
        with suppress(DockerException, OSError):  # an engine that insists on every layer gets every layer
            engine.client.images.load(archive(image, store, skip=present))
    if not _found(engine, image):
        engine.client.images.load(archive(image, store))
    return _found(engine, image) or engine.client.images.get(image.id)  # which says that there is none


def _found(engine: Engine, image: Image) -> Any:
    """Return the image as the engine has it, None where it does not.

    Docker's own store knows an image by its configuration, containerd's by its manifest.
    """
    for known in (image.id, digest_of(archived_manifest(image))):
        with suppress(DockerException, OSError):
            if (found := engine.client.images.get(known)).id == known:
                return found
    return None


def _count_present(engine: Engine, image: Image) -> int:
    """Count the lowest layers that some image in the engine has already: `docker load` does not open those.

    Return 0 for containerd's store: an image may be there without the tars of its layers, and a load does not say so.
    """
    diff_ids = [f"sha256:{layer.written.diff_id}" for layer in image.layers]
    try:
        if CONTAINERD in (engine.client.info().get("DriverStatus") or []):
            return 0
        known = [other.attrs["RootFS"].get("Layers") or [] for other in engine.client.images.list()]
    except (DockerException, OSError):
        return 0
    return max((_common(diff_ids, layers) for layers in known), default=0)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def run(engine: Engine, image: Image, command: Sequence[str]) -> str | None:
    """Run a command in a container of a loaded image, without network.

    Returns None when it ends well, else the last line that it wrote on stderr.
    Raises WorldFault when the container cannot be started.
    """
    if engine.client is None:
        return podman.run(engine.environ, image, command)
    return _run_docker(engine, image, command)


def _run_docker(engine: Engine, image: Image, command: Sequence[str]) -> str | None:
    found = _found(engine, image)
    try:
        with background() as beside, _container(engine, found.id if found else image.tag, command) as container:
            said = container.attach(stdout=False, stderr=True, stream=True)
            text = beside.start(lambda: b"".join(said))  # who writes much waits for a reader
            container.start()
            code = container.wait()["StatusCode"]
            lines = text().decode(errors="replace").strip().splitlines()
    except (DockerException, OSError) as error:
        raise WorldFault("the engine could not start the image", str(error)[:300], "docker run it by hand") from error
    return (lines or ["?"])[-1] if code else None


@contextmanager
def _container(engine: Engine, image: str, command: Sequence[str]) -> Iterator[Any]:
    """Make a container that the engine removes when it ends, also after a kill -9; an interrupt ends it."""
    container = None
    try:
        with process.uninterrupted():
            container = engine.client.containers.create(
                image, list(command[1:]), entrypoint=command[0], network_mode="none", auto_remove=True
            )
        yield container
    finally:
        if container:
            with suppress(DockerException, OSError):  # the engine was faster
                container.remove(force=True)


def save(engine: Engine, name: str, path: Path) -> bool:
    """Save an image of the engine as an archive at `path`; return False where the engine does not have it.

    Raises WorldFault when the engine has it and cannot save it.
    """
    if engine.client is None:
        return podman.save(engine.environ, name, path)
    try:
        with path.open("wb") as file:
            file.writelines(engine.client.images.get(name).save(named=True))
    except NotFound:
        return False
    except (DockerException, RequestException) as error:  # an OSError of another kind is that of the disk
        raise WorldFault("docker could not save the image", str(error)[:300], "docker save it by hand") from error
    return True
