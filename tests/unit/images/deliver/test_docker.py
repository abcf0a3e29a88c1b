"""Which Docker is meant, what is said where it is not reached, and how an image is loaded, run and saved.

The two stores of images that Docker has are told apart by what they answer: its own knows an image by the digest of its
configuration (moby, daemon/images), containerd's by that of its manifest (moby, daemon/containerd).
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import socket
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from docker.types import LogConfig
from requests import Timeout

from images.deliver import docker
from images.deliver.docker import Docker
from images.host.errors import Fault, WorldFault
from images.oci.image import Image, archived_manifest, write_config
from images.oci.layer import Layer, Written
from images.oci.manifest import digest_of
from images.oci.reference import full_name
from images.platforms import AMD64
from images.store.store import Store
from tests.support.stores import keep

CREATED = "2026-01-01T00:00:00Z"


@dataclass
class Images:
    """The images of a Docker daemon, as its API and Docker's SDK have them; `loads` has the names of each archive."""

    records: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> attributes
    loads: list[list[str]] = field(default_factory=list)

    def load(self, chunks: Iterable[bytes]) -> None:
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            files = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
        self.loads.append(sorted(files))
        for name in self.take(files):
            self.get(name)

    def take(self, files: dict[str, bytes]) -> Sequence[str]:
        entry = json.loads(files["manifest.json"])[0]
        layers = json.loads(files[entry["Config"]])["rootfs"]["diff_ids"]
        known = {layer for record in self.records.values() for layer in record["RootFS"]["Layers"]}
        if any(place not in files and f"sha256:{place[-64:]}" not in known for place in entry["Layers"]):
            raise DockerException("a layer is missing")
        record = {"Id": digest_of(files[entry["Config"]]), "RootFS": {"Layers": layers}}
        self.records |= {full_name(name): record for name in entry["RepoTags"]}
        return list(entry["RepoTags"])

    def get(self, name: str) -> Loaded:
        matching = [record for record in self.records.values() if record["Id"] == name]
        if not matching and (name.startswith("sha256:") or full_name(name) not in self.records):
            raise ImageNotFound(f"No such image: {name}")
        return Loaded(matching[0] if matching else self.records[full_name(name)], self)

    def list(self) -> list[Loaded]:
        return [Loaded(record, self) for record in self.records.values()]


class Containerd(Images):
    """The same on containerd: layers that are missing are not missed, and a name is looked for with its host alone."""

    def take(self, files: dict[str, bytes]) -> Sequence[str]:
        entries = json.loads(files["index.json"])["manifests"]
        for entry in entries:
            written = json.loads(files["blobs/sha256/" + entry["digest"][-64:]])
            layers = json.loads(files["blobs/sha256/" + written["config"]["digest"][-64:]])["rootfs"]["diff_ids"]
            name = entry["annotations"]["io.containerd.image.name"]
            self.records[name] = {"Id": entry["digest"], "RootFS": {"Layers": layers}}
        return [entry["annotations"]["io.containerd.image.name"] for entry in entries]


@dataclass
class Loaded:
    attrs: dict[str, Any]
    images: Images

    @property
    def id(self) -> str:
        return str(self.attrs["Id"])

    def tag(self, name: str, tag: str) -> None:
        self.images.records[full_name(f"{name}:{tag}")] = self.images.get(self.id).attrs


@dataclass
class Client:
    images: Images
    started: list[str] = field(default_factory=list)
    removed: list[bool] = field(default_factory=list)
    said: bytes = b""
    code: int = 0
    interrupted: bool = False

    @property
    def containers(self) -> Client:
        return self

    def info(self) -> dict[str, Any]:
        status = [["Backing Filesystem", "extfs"]]
        if isinstance(self.images, Containerd):
            status = [["driver-type", "io.containerd.snapshotter.v1"]]
        return {"DriverStatus": status}

    def create(self, image: str, *_: object, **__: object) -> Client:
        self.started.append(self.images.get(image).id)
        return self

    def attach(self, **_: object) -> Iterable[tuple[None, bytes]]:
        return iter([(None, self.said)])

    def start(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt

    def wait(self) -> dict[str, int]:
        return {"StatusCode": self.code}

    def remove(self, *, force: bool) -> None:
        self.removed.append(force)
        raise DockerException("removal is in progress")


def image_of(store: Store, *tags: str, layers: Sequence[bytes]) -> Image:
    """Make an image over layers that are not compressed."""
    parts = []
    for data in layers:
        digest = keep(store, data)
        parts.append(Layer("x", Written(digest, digest, len(data), len(data)), reused=True, packed="none"))
    return Image(tags, write_config(parts, AMD64, {}, CREATED), b"{}", tuple(parts))


@pytest.mark.parametrize("kind", [Images, Containerd])
def test_an_image_is_loaded_once_and_has_all_its_names(tmp_path: Path, kind: type[Images]) -> None:
    store, client = Store(tmp_path), Client(kind())
    first, again = (image_of(store, *tags, layers=[b"a layer"]) for tags in (("a:1", "host/b:2"), ("c:3",)))

    for image in (first, again):
        Docker(client).load(image, store)
        Docker(client).run(image, ["true"])

    known = digest_of(archived_manifest(first)) if kind is Containerd else first.id
    assert len(client.images.loads) == 1
    assert [client.images.get(name).id for name in ("a:1", "host/b:2", "c:3")] == [known] * 3
    assert client.started == [known] * 2


@pytest.mark.parametrize(
    ("code", "said", "failure"),
    [(0, b"a warning", None), (1, b"first\nlast: na\xc3\xafve\n", "last: na\xefve"), (137, b"", "?")],
)
def test_docker_says_the_last_line_of_a_command_that_fails(
    tmp_path: Path, code: int, said: bytes, failure: str | None
) -> None:
    store, client = Store(tmp_path), Client(Images(), code=code, said=said)
    image = image_of(store, "a:1", layers=[])
    Docker(client).load(image, store)

    assert Docker(client).run(image, ["python3"]) == failure


def test_an_interrupt_ends_the_container_of_docker(tmp_path: Path) -> None:
    store, client = Store(tmp_path), Client(Images(), interrupted=True)
    image = image_of(store, "a:1", layers=[])
    Docker(client).load(image, store)

    with pytest.raises(KeyboardInterrupt):
        Docker(client).run(image, ["python3"])
    assert client.removed == [True]


@pytest.mark.parametrize(("kind", "sent"), [(Images, 1), (Containerd, 2)])
def test_layers_that_are_there_are_sent_where_nothing_else_says_that_they_are_whole(
    tmp_path: Path, kind: type[Images], sent: int
) -> None:
    store, client = Store(tmp_path), Client(kind())

    for number, layers in enumerate(([b"below"], [b"other"], [b"below", b"above"])):
        Docker(client).load(image_of(store, f"a:{number}", layers=layers), store)

    assert len(client.images.loads) == 3
    blobs = [name for name in client.images.loads[2] if name.startswith("blobs/")]
    assert len(blobs) == sent + 2  # the configuration and the manifest


def test_every_layer_is_sent_to_a_docker_that_does_not_say_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, client = Store(tmp_path), Client(Images())
    Docker(client).load(image_of(store, "a:1", layers=[b"below"]), store)
    monkeypatch.setattr(client, "info", mock.Mock(side_effect=DockerException))

    Docker(client).load(image_of(store, "a:1", layers=[b"below", b"above"]), store)

    assert [len([name for name in load if name.startswith("blobs/")]) for load in client.images.loads] == [3, 4]


def test_an_engine_that_refuses_an_image_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, client = Store(tmp_path), Client(Images())
    monkeypatch.setattr(client.images, "take", lambda _: [])

    with pytest.raises(WorldFault, match="docker could not load the image") as caught:
        Docker(client).load(image_of(store, "a:1", layers=[]), store)

    assert "No such image: sha256:" in caught.value.value


def contexts(directory: Path, config: object, **hosts: str) -> None:
    """Write a configuration of Docker's, and contexts that lead to these addresses."""
    (directory / "config.json").write_text(json.dumps(config))
    for name, host in hosts.items():
        place = directory / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
        place.mkdir(parents=True)
        meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}
        (place / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize(
    ("config", "environ", "value"),
    [
        ({}, {}, None),
        ({}, {"DOCKER_HOST": ""}, None),
        ({}, {"DOCKER_HOST": "unix:///no", "DOCKER_CONTEXT": "mine"}, "unix:///no (No such file or directory)"),
        ({}, {"DOCKER_HOST": "nonsense"}, "nonsense (Invalid bind address"),
        ({}, {"DOCKER_HOST": "tcp://127.0.0.1:9"}, "tcp://127.0.0.1:9 (Connection refused)"),
        ({}, {"DOCKER_CONTEXT": "mine"}, "mine (No such file or directory)"),
        ({"currentContext": "mine"}, {}, "mine (No such file or directory)"),
        ({"currentContext": "mine"}, {"DOCKER_CONTEXT": "default"}, None),
        ({"auths": {"host": {"auth": "hidden"}}}, {"DOCKER_CONTEXT": "mine"}, "mine"),
    ],
)
def test_the_daemon_is_the_one_of_dockers_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: object, environ: dict[str, str], value: str | None
) -> None:
    contexts(tmp_path, config, mine="unix:///not/there")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):  # the client reads those of the process beside the configuration
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(docker, "SOCKET", str(tmp_path / "docker.sock"))
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    monkeypatch.setattr("urllib3.util.connection.create_connection", mock.Mock(side_effect=refused))

    if value is None:
        assert docker.connect_docker(environ, 5) is None
        return
    with pytest.raises(Fault) as caught:
        docker.connect_docker(environ, 5)

    assert caught.value.value.replace("[Errno 2] ", "").replace("[Errno 111] ", "").startswith(value)
    assert "hidden" not in str(caught.value)


def test_who_may_not_use_the_socket_is_told_which_group_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)

    with pytest.raises(WorldFault) as caught:
        docker.connect_docker({"DOCKER_HOST": f"unix://{docker.SOCKET}"}, 5)
    assert docker.SOCKET in caught.value.value and "join the group docker" in caught.value.remedy


def test_a_container_reads_a_file_has_no_rights_and_no_network_and_is_removed(store: Store, tmp_path: Path) -> None:
    container, image = mock.Mock(), image_of(store, "a:1", layers=[])
    container.attach.return_value = iter([(b"out", None), (None, b"first\nna\xefve\n")])
    container.wait.return_value = {"StatusCode": 7}
    client = mock.Mock(**{"images.get.side_effect": DockerException, "containers.create.return_value": container})
    (tmp_path / "given").write_bytes(b"given")

    failure = Docker(client).run(image, ["python3", "-c", "x"], tmp_path / "given", tmp_path / "out")

    assert (failure, (tmp_path / "out").read_bytes()) == ("na\ufffdve", b"out")
    [created] = client.containers.create.call_args_list
    assert created == mock.call(
        "a:1", ["-c", "x", "/given"], entrypoint="python3", network_mode="none", auto_remove=True, cap_drop=["ALL"],
        security_opt=["no-new-privileges"], log_config=LogConfig(type="none"),
    )  # fmt: skip
    place, archive = container.put_archive.call_args.args
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as tar:
        assert (place, tar.getnames()) == ("/", ["given"])
    assert container.attach.call_args == mock.call(stdout=True, stderr=True, stream=True, demux=True)
    assert container.remove.call_args == mock.call(force=True)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(ImageNotFound("no"), None), (DockerException("refused"), WorldFault), (Timeout("refused"), WorldFault),
     (FULL, OSError)],
)  # fmt: skip
def test_an_image_that_is_not_there_is_told_from_one_that_cannot_be_saved(
    tmp_path: Path, answer: Exception, kind: type[Exception] | None
) -> None:
    client = mock.Mock()
    client.images.get.return_value.save.side_effect = [iter([b"an ", b"image"]), answer]

    assert Docker(client).save("a:1", tmp_path / "a.tar") is True
    assert (tmp_path / "a.tar").read_bytes() == b"an image"
    assert client.images.get.return_value.save.call_args == mock.call(named=True)
    with pytest.raises(kind, match=r"refused|No space") if kind else nullcontext():
        assert Docker(client).save("a:1", tmp_path / "a.tar") is False


def test_a_daemon_that_has_answered_is_asked_through_no_proxy_and_may_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = mock.Mock()
    monkeypatch.setattr(DockerClient, "from_env", made := mock.Mock(return_value=client))

    assert docker.connect_docker({"DOCKER_HOST": "tcp://a:1"}, 5)
    assert made.call_args == mock.call(timeout=5, environment={"DOCKER_HOST": "tcp://a:1"})
    assert client.ping.called and (client.api.trust_env, client.api.timeout) == (False, 600)


@pytest.mark.parametrize("error", [DockerException("refused"), OSError("refused")])
def test_a_container_that_does_not_start_is_said(store: Store, error: Exception) -> None:
    client = mock.Mock(**{"images.get.side_effect": DockerException, "containers.create.side_effect": error})

    with pytest.raises(WorldFault, match="could not start the image: refused"):
        Docker(client).run(image_of(store, "a:1", layers=[]), ["true"])
