"""Containers that stand for nodes: up once, restarted before every test, gone in the end, whatever happens."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, Container, Node
from tests.cluster.pods import Podman, missing, podman
from tests.support.harness import HARDENED, ROOT, call

COMPOSE = Path(__file__).with_name("compose.yaml")
# The image with scripts that load from a hub, and train.
OFFLINE = "FROM {image}\nCOPY --chown=0:0 examples /workspace/transformers/examples\n"


@pytest.fixture(scope="session")
def docker_compose_command() -> str:
    """Name the compose of this machine: 1.x and the plugin of newer engines take the same file and the same words."""
    return "docker-compose" if call(["docker", "compose", "version"]).code else "docker compose"


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    """Name the file, for pytest-docker."""
    return str(COMPOSE)


@pytest.fixture(scope="session")
def docker_compose_project_name(
    docker_compose_command: str, image: str, keys: Path, monkeypatch_session: pytest.MonkeyPatch
) -> Iterator[str]:
    """Name the project, and leave nothing of it behind even where it did not come up."""
    monkeypatch_session.setenv("MULTINODE_TEST_IMAGE", image)
    monkeypatch_session.setenv("MULTINODE_TEST_KEYS", str(keys))
    name = f"multinode{os.getpid()}"
    yield name
    compose = [*docker_compose_command.split(), "--file", str(COMPOSE), "--project-name", name]
    call([*compose, "logs", "--no-color"])
    call([*compose, "down", "--timeout", "2", "--volumes", "--remove-orphans"], seconds=120)


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """Bring the nodes up, for pytest-docker; compose 1.x does not know --wait."""
    return ["up --detach"]


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    """Take the nodes down, for pytest-docker."""
    return ["down --timeout 2 --volumes"]


@pytest.fixture(scope="session")
def monkeypatch_session() -> Iterator[pytest.MonkeyPatch]:
    """Change the environment for the session."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key, once with the mode that a Secret has, once as ssh-keygen leaves it for the image's user."""
    folder = tmp_path_factory.mktemp("keys")
    for mode in (0o644, 0o600):
        place = folder / f"{mode:04o}"
        place.mkdir()
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / "id_ed25519")])
        (place / "id_ed25519").chmod(mode)
    os.chown(folder / "0600" / "id_ed25519", 1000, 0)
    return folder


@pytest.fixture(scope="session")
def pairs(docker_services: object, docker_compose_project_name: str) -> dict[str, tuple[Node, Node]]:
    """Find the containers of both pairs."""
    name = docker_compose_project_name
    wanted = f"label=com.docker.compose.project={name}"
    rows = call(["docker", "ps", "--filter", wanted, "--format", '{{.Label "com.docker.compose.service"}} {{.ID}}'])
    found = dict(row.split() for row in rows.out.splitlines())
    nodes = {service: Node(service, container) for service, container in found.items()}
    return {kind: (nodes[f"{kind}0"], nodes[f"{kind}1"]) for kind in ("node", "user")}


def fresh(nodes: tuple[Node, Node]) -> Iterator[Cluster]:
    """Restart both nodes, so that nothing of an earlier test runs there, and end in the end what was started."""
    names = [node.container for node in nodes]
    assert call(["docker", "restart", "--time", "0", *names]).code == 0
    cluster = Cluster(nodes)
    yield cluster
    for child in cluster.started:
        child.end()


@pytest.fixture
def cluster(pairs: dict[str, tuple[Node, Node]]) -> Iterator[Cluster]:
    """Lend the hardened pair."""
    yield from fresh(pairs["node"])


@pytest.fixture(params=["node", pytest.param("user", marks=pytest.mark.slow)])
def any_cluster(request: pytest.FixtureRequest, pairs: dict[str, tuple[Node, Node]]) -> Iterator[Cluster]:
    """Lend both pairs, one after the other."""
    yield from fresh(pairs[request.param])


@pytest.fixture
def container(
    image: str, keys: Path, docker_services: object, docker_compose_project_name: str
) -> Iterator[Callable[..., Container]]:
    """Start containers of their own on the network of the cluster; their logs are shown when the test fails."""
    made: list[Container] = []

    def start(
        host: str, core: int, *command: str, environ: dict[str, str] | None = None, options: Sequence[str] = ()
    ) -> Container:
        name = f"{docker_compose_project_name}-{host}"
        options = [*options, "--name", name, "--hostname", host, "--network-alias", host, "--cpuset-cpus", str(core)]
        options += ["--network", f"{docker_compose_project_name}_default", *HARDENED]
        options += ["--volume", f"{keys}/0644:/etc/multinode/ssh:ro"]
        options += [word for key, value in (environ or {}).items() for word in ("--env", f"{key}={value}")]
        made.append(Container(name))
        assert call(["docker", "run", "--detach", *options, image, *command]).code == 0
        return made[-1]

    yield start
    for each in made:
        call(["docker", "logs", each.name])
        call(["docker", "rm", "--force", each.name])


@pytest.fixture(scope="session")
def pulled(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Hand the image over from Docker to podman, and add scripts that load from a hub."""
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    place, own = tmp_path_factory.mktemp("podman"), f"localhost/{image}-pods"
    (place / "Dockerfile").write_text(OFFLINE.format(image=f"docker.io/library/{image}"))
    with podman(place, f"multinode-{uuid.uuid4().hex[:8]}") as engine:
        try:
            assert engine.call("pull", "--quiet", f"docker-daemon:{image}", seconds=300).code == 0
            build = ("build", "--quiet", "--tag", own, "--file", str(place / "Dockerfile"))
            assert engine.call(*build, str(ROOT / "tests" / "data" / "offline"), seconds=300).code == 0
            yield own
        finally:
            engine.call("rmi", "--force", own, f"docker.io/library/{image}")


@pytest.fixture
def node(pulled: str, tmp_path: Path) -> Iterator[Podman]:
    """Lend podman with a network for one job, and remove its claim."""
    name = f"multinode-{uuid.uuid4().hex[:8]}"
    with podman(tmp_path, name) as lent:
        yield lent
    lent.call("volume", "rm", "--force", name)
