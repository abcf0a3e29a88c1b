"""Bases out of registries through skopeo: real ones (Debian's docker-registry), and one that fails as told."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from images.base.base import Base
from images.base.pulled import pull_image, read_base
from images.context import Access
from images.deliver import skopeo
from images.host.errors import Fault, UserFault, WorldFault
from images.oci import reference
from images.platforms import AMD64
from images.store.store import Store
from tests.support.certificates import certificate as certify
from tests.support.cut_connection import connection_to
from tests.support.fault_server import Faulty, Reply, serving
from tests.support.harness import small_disk
from tests.support.registry import PASSWORD, fill, mirrored, needed, running
from tests.support.stand_in import Image, layout, write

pytestmark = needed

NAME = "intel/intel-optimized-pytorch"
TAG = "2.4.0-pip-multinode"
BASIC = "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()
LAYER = Image().layers[1]
CONFIG = json.loads(Image().blobs[Image().digest])["config"]["digest"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the stand-in as an OCI layout."""
    folder = tmp_path_factory.mktemp("registry")
    images = {TAG: Image(), "zstd": Image(compression="zstd"), "none": Image(compression="none")}
    images["arm64"] = Image(architecture="arm64")
    return write(folder / "layout", layout(images)).parent


@pytest.fixture(scope="module")
def registry(folder: Path, open_registry: str) -> str:
    """Fill the registry that anybody may pull from."""
    for tag in (TAG, "zstd", "none", "arm64"):
        fill(f"{folder}/layout:{tag}", f"{open_registry}/{NAME}:{tag}")
    fill(f"{folder}/layout:{TAG}", f"{open_registry}/{NAME}:docker", "--format=v2s2")
    return open_registry


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[str]:
    """Run a registry that wants a user and a password."""
    with running(folder / "locked", locked=True) as host:
        options = ("--preserve-digests", f"--dest-creds=user:{PASSWORD}")
        fill(f"{folder}/layout:{TAG}", f"{host}/{NAME}:{TAG}", *options)
        yield host


class Pull:
    """One user's pulls: a store, a Docker configuration, and what was said and waited."""

    def __init__(self, root: Path) -> None:
        self.root, self.said, self.waited, self.came = root, list[str](), list[float](), list[int]()
        self.environ = {"DOCKER_CONFIG": str(root), "PATH": os.environ["PATH"]}

    def __call__(self, text: str, certificate: str | None = None) -> Base:
        access = Access(environ=self.environ, certificate=certificate, say=self.said.append, wait=self.waited.append)
        store = Store(self.root / "store")
        return read_base(
            pull_image(reference.parse_reference(text), AMD64, store, access, self.came.append), "3.10", "2.35", store
        )

    def configure(self, config: object) -> None:
        """Write Docker's configuration."""
        (self.root / "config.json").write_text(json.dumps(config))

    def aside(self) -> list[Path]:
        """List what is half-written."""
        return list((self.root / "store" / "aside").iterdir())

    def login(self, host: str, login: str = BASIC) -> None:
        """Log in as Docker does."""
        self.configure({"auths": {host: {"auth": login.removeprefix("Basic ")}}})


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Begin with nothing."""
    return Pull(tmp_path)


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_the_base_comes_with_its_own_digests(registry: str, pull: Pull, compression: str) -> None:
    image = Image(compression=compression)

    pulled = pull(f"{registry}/{NAME}:{TAG if compression == 'gzip' else compression}")

    assert pulled.digest == image.digest
    assert [f"sha256:{layer.written.digest}" for layer in pulled.layers] == image.layers
    assert {layer.packed for layer in pulled.layers} == {compression}
    assert pulled.facts.glibc == "2.35"
    assert sum(pull.came) == sum(len(d) for name, d in image.blobs.items() if name != image.digest)
    assert pull.aside() == []


def test_a_manifest_in_dockers_form_has_the_same_layers(registry: str, pull: Pull) -> None:
    pulled = pull(f"{registry}/{NAME}:docker")

    assert [f"sha256:{layer.written.digest}" for layer in pulled.layers] == Image().layers
    assert pulled.digest != Image().digest


def test_a_digest_is_as_good_as_a_tag_and_what_is_there_is_not_fetched_again(registry: str, pull: Pull) -> None:
    first = pull(f"{registry}/{NAME}:{TAG}")
    pull.came.clear()

    second = pull(f"{registry}/{NAME}@{first.digest}")

    assert (second.layers, second.facts) == (first.layers, first.facts)
    assert pull.came == []


@pytest.mark.parametrize("linked", [True, False])
def test_only_the_missing_layer_is_fetched(pull: Pull, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    def of_another_user(*_: object) -> None:
        raise PermissionError(errno.EPERM, "fs.protected_hardlinks")

    if not linked:
        monkeypatch.setattr(os, "link", of_another_user)
    with serving(Faulty(Image())) as server:
        first = pull(f"{server.host}/a/b:1")
        (pull.root / "store" / "blobs" / first.layers[0].written.digest / "blob").write_bytes(b"damaged")
        server.asked.clear()

        assert pull(f"{server.host}/a/b:1").layers == first.layers

    asked = [path.rpartition("/")[2] for path, _ in server.asked]
    assert (asked.count(Image().layers[0]), asked.count(LAYER)) == (1, 0)


def test_a_login_of_docker_opens_a_registry(locked: str, pull: Pull) -> None:
    with pytest.raises(UserFault, match=f"docker login {locked}"):
        pull(f"{locked}/{NAME}:{TAG}")
    pull.login(locked)

    assert pull(f"{locked}/{NAME}:{TAG}").digest == Image().digest


def test_a_wrong_password_is_refused_and_not_said(locked: str, pull: Pull) -> None:
    pull.login(locked, base64.b64encode(b"somebody:hidden").decode())

    with pytest.raises(UserFault, match="wants a login") as caught:
        pull(f"{locked}/{NAME}:{TAG}")

    assert "hidden" not in str(caught.value) and "somebody" not in str(caught.value)


def test_a_credential_helper_is_asked_and_its_login_is_on_no_command_line(
    locked: str, pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, answer = pull.root / "seen", json.dumps({"ServerURL": "x", "Username": "user", "Secret": PASSWORD})
    programs = {
        "skopeo": f'[ "$1" = --version ] || {{ echo "$@"; env; stat -c %a auth.json; cat auth.json; }} >> {seen}\n'
        f'PATH={os.environ["PATH"]} exec skopeo "$@"',
        "docker-credential-test": f"read -r asked\n[ \"$1 $asked\" = 'get {locked}' ] || exit 3\necho '{answer}'",
    }
    for name, script in programs.items():
        (pull.root / name).write_text(f"#!/bin/sh\n{script}\n")
        (pull.root / name).chmod(0o755)
    pull.environ["PATH"] = f"{pull.root}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", pull.environ["PATH"])
    pull.configure({"credsStore": "test"})

    assert pull(f"{locked}/{NAME}:{TAG}").digest == Image().digest

    text = seen.read_text()
    assert text.count(BASIC.removeprefix("Basic ")) == text.count("\n600\n") == 3
    assert PASSWORD not in text and pull.aside() == []


@pytest.mark.parametrize("given", ["pip", "SSL_CERT_FILE", None])
def test_tls_and_whose_certificates_are_trusted(folder: Path, pull: Pull, given: str | None, tmp_path: Path) -> None:
    certificate = certify(tmp_path, "IP:127.0.0.1,DNS:this-machine.example")
    if given and given != "pip":
        pull.environ[given] = os.path.relpath(certificate)  # skopeo works in a directory of its own
    with running(tmp_path / "tls", certificate=certificate) as host:
        fill(f"{folder}/layout:{TAG}", f"{host}/{NAME}:{TAG}")
        pull.environ |= mirrored(pull.root, "registry.invalid", host)  # by its own name TLS is not checked here
        if given is None:
            with pytest.raises(WorldFault, match="the registry's certificate is not trusted"):
                pull(f"registry.invalid/{NAME}:{TAG}")
        else:
            pulled = pull(f"registry.invalid/{NAME}:{TAG}", str(certificate) if given == "pip" else None)
            assert pulled.digest == Image().digest and pull.said == []


def fetched(server: Faulty, digest: str) -> int:
    """Count how often a blob was asked for."""
    return sum(path.endswith(digest) for path, _ in server.asked)


def test_a_build_that_failed_keeps_the_layers_that_came_whole(pull: Pull) -> None:
    first = Image().layers[0]
    with serving(Faulty(Image(), {LAYER: [Reply(503)] * 3})) as server:
        with pytest.raises(WorldFault, match="503"):
            pull(f"{server.host}/a/b:1")
        server.asked.clear()

        pull(f"{server.host}/a/b:1")

    assert (fetched(server, first), fetched(server, LAYER)) == (0, 1)


def test_two_builds_at_once_get_the_same_layers(pull: Pull) -> None:
    with serving(Faulty(Image())) as server, ThreadPoolExecutor(2) as pool:
        pulled = list(pool.map(pull, [f"{server.host}/a/b:1"] * 2))

    assert pulled[0].layers == pulled[1].layers
    assert list((pull.root / "store" / "aside").iterdir()) == []


@pytest.mark.parametrize(
    ("end", "replies", "kind", "words"),
    [
        ("/manifests/1", [Reply(500)] * 3, WorldFault, "500"),
        ("/manifests/1", [Reply(403)], UserFault, "wants a login"),
        ("/manifests/1", [Reply(404)], UserFault, "no such image"),
        ("/manifests/1", [Reply(200, b"<html>login</html>")], WorldFault, "not JSON"),
        ("/manifests/1", [Reply(200, b"x" * (5 << 20))] * 3, WorldFault, "exceeded maximum allowed size"),
        (Image().digest, [Reply(200, b"{}")], WorldFault, "another digest"),
        (f"blobs/{CONFIG}", [Reply(200, b"{}")] * 9, WorldFault, "match"),
        (LAYER, [Reply(200, b"x" * len(Image().blobs[LAYER]))] * 3, WorldFault, "match"),
        ("/token", [Reply(200, b"<html>")] * 3, WorldFault, "invalid character"),
    ],
)
def test_every_failure_is_said_in_three_parts(
    pull: Pull, end: str, replies: list[Reply], kind: type[Fault], words: str
) -> None:
    faulty = Faulty(Image(), {end: list(replies)}, login="x" if end == "/token" else None)
    with serving(faulty) as server, pytest.raises(kind, match=words) as caught:
        pull(f"{server.host}/a/b@{Image().digest}" if end == Image().digest else f"{server.host}/a/b:1")

    assert caught.value.fact and server.host in caught.value.value and caught.value.remedy
    assert pull.aside() == []


def test_a_registry_that_does_not_answer_is_named(pull: Pull) -> None:
    with pytest.raises(WorldFault, match=r"127\.0\.0\.1:9"):
        pull("127.0.0.1:9/a/b:1")

    assert len(pull.waited) == 2


def test_a_pull_from_a_registry_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    came = list[int]()
    store = Store(tmp_path / "store")
    access = Access(environ={"PATH": os.environ["PATH"]})
    with (
        serving(Faulty(Image())) as server,
        connection_to(server.host) as way,
        store.temporary(directory=True) as aside,
    ):
        place, way.limit, way.stall = reference.Remote(way.host, "a/b"), 1, True
        with pytest.raises(WorldFault, match="does not answer") as caught:
            skopeo.Server(place, access, aside, patience=1.5).pull(Image().digest, 1, lambda: came.append(1))

    assert way.host in caught.value.value and came


def test_a_full_disk_is_said(pull: Pull) -> None:
    with (
        small_disk(pull.root / "store", "200k"),
        serving(Faulty(Image())) as server,
        pytest.raises(WorldFault, match="the disk is full") as caught,
    ):
        pull(f"{server.host}/a/b:1")

    assert "make room" in caught.value.remedy
