"""Containers that stand for nodes: up once, restarted before every test, gone in the end, whatever happens."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from images.layers.entrypoint_layer import GID, UID
from tests.cluster.nodes import HAS_STEPS, MEETS, SHARED, Cluster, restart, two_pods
from tests.cluster.pods import Podman, missing, podman
from tests.support.containers import Container, detached
from tests.support.harness import HARDENED, IMAGES, ROOT, built, call, env_options, write_train_script

KEYS = "/etc/multinode/ssh"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key, once with the mode that a Secret has, once as ssh-keygen leaves it for the image's user."""
    folder = tmp_path_factory.mktemp("keys")
    for mode in (0o644, 0o600):
        place = folder / f"{mode:04o}"
        place.mkdir()
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / "id_ed25519")])
        (place / "id_ed25519").chmod(mode)
    os.chown(folder / "0600" / "id_ed25519", UID, GID)
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory that all nodes mount, with the script of a user who has read nothing of checkpoints."""
    place = tmp_path_factory.mktemp("shared")
    place.chmod(0o777)
    write_train_script(place)
    return place


@pytest.fixture(scope="session")
def nodes(image: str, keys: Path, shared: Path) -> Iterator[Cluster]:
    """Bring two nodes up, a core each, under a uid that no file knows, with nothing allowed, and a key of a Secret."""
    mounts = {keys / "0644": KEYS}
    options = (*MEETS, *HAS_STEPS, *HARDENED, "--env=HF_TOKEN=hf_secret_of_the_test", f"--volume={shared}:{SHARED}")
    with two_pods(f"multinode{os.getpid()}nodes", image, mounts, *options, hosts=("node0", "node1")) as cluster:
        yield cluster


@pytest.fixture
def cluster(nodes: Cluster) -> Iterator[Cluster]:
    """Restart both nodes, so that nothing of an earlier test runs there, and end in the end what was started."""
    restart(nodes)
    cluster = Cluster(nodes.network, nodes.nodes)
    yield cluster
    for child in cluster.started:
        child.end()


@pytest.fixture
def container(image: str, keys: Path, nodes: Cluster) -> Iterator[Callable[..., Container]]:
    """Start containers of their own on the network of the cluster; their logs are shown when the test fails."""
    with ExitStack() as stack:

        def start(
            host: str, core: int, *command: str, environ: dict[str, str] | None = None, options: Sequence[str] = ()
        ) -> Container:
            words = [*options, "--hostname", host, "--network-alias", host, "--cpuset-cpus", str(core), *HARDENED]
            words += HAS_STEPS
            words += ["--volume", f"{keys}/0644:{KEYS}:ro", *env_options(environ or {}), image, *command]
            node = detached(*words, name=f"{nodes.network}-{host}", network=nodes.network)
            return stack.enter_context(node)

        yield start


@pytest.fixture(scope="session")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build with scripts that load from a hub and train, and hand the image over to podman without Docker."""
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    place, name = tmp_path_factory.mktemp("podman"), f"localhost/{IMAGES}:pods"
    built("--examples", str(ROOT / "tests/data/offline"), "--no-load", "--output", f"{place}/layout/")
    try:
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{place}/layout", f"containers-storage:{name}"]
        assert call(copy).code == 0
        yield name
    finally:
        call(["podman", "rmi", "--force", name])


@pytest.fixture
def node(pulled: str, tmp_path: Path) -> Iterator[Podman]:
    """Lend podman with a network for one job, and remove its claim."""
    name = f"multinode-{uuid.uuid4().hex[:8]}"
    with podman(tmp_path, name) as lent:
        yield lent
    lent.call("volume", "rm", "--force", name)
