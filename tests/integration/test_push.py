"""Images pushed to real registries (Debian's docker-registry): with and without TLS and login, cut, and again."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.deliver import skopeo, transfer
from images.host.context import Access
from images.host.errors import Damaged, UserFault, WorldFault
from images.host.store import Store
from images.model import Image
from images.oci import reference
from images.oci.compression import packed
from images.oci.layout_writer import write_layout
from tests.support.certificates import certificate
from tests.support.cut_connection import connection_to
from tests.support.finished_images import SMALL, finished
from tests.support.registry import PASSWORD, manifest, needed, running
from tests.support.stand_in import Files, digest

pytestmark = needed

BIG: Files = {"big": random.Random(1).randbytes(3_000_000)}


def new_to_every_registry(seed: int) -> Files:
    """Return a layer that no other test pushes.

    skopeo remembers which repositories of a host and port have a layer, and takes it from there instead of sending it.
    """
    return {"big": random.Random(seed).randbytes(3_000_000)}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a registry that anybody may push to."""
    with running(tmp_path_factory.mktemp("registry") / "open") as host:
        yield host


def push(made: Image, text: str, store: Store, *, compression: str = "zstd", **access: object) -> None:
    environ = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": str(store.root), **dict(access.pop("environ", {}))}  # type: ignore[call-overload]
    known = Access(environ=environ, wait=lambda _: None, **access)  # type: ignore[arg-type]
    transfer.push([made], reference.push_target(text), store, known, compression)


@pytest.mark.parametrize(("compression", "suffix"), [("zstd", "zstd"), ("gzip", "gzip"), ("none", "zstd")])
def test_the_registry_has_the_digest_that_is_printed(
    registry: str, store: Store, compression: str, suffix: str
) -> None:
    made = finished(store, BIG, SMALL, compression="zstd" if compression == "none" else compression)

    push(made, f"{registry}/a/{compression}:1", store, compression=compression)

    found = manifest(f"{registry}/a/{compression}:1")
    assert found and digest(found) == made.digest
    assert {row["mediaType"].rpartition("+")[2] for row in json.loads(found)["layers"]} == {suffix}
    assert list((store.root / "aside").iterdir()) == []


def test_only_what_is_missing_travels(registry: str, store: Store) -> None:
    big = new_to_every_registry(5)
    first, second = finished(store, big, SMALL), finished(store, big, SMALL, {"etc/group": b"root:x:0:\n"})
    with connection_to(registry) as way:
        push(first, f"{way.host}/b/c:1", store)
        whole, way.sent = way.sent, 0

        push(second, f"{way.host}/b/c:2", store)
        more, way.sent = way.sent, 0
        push(second, f"{way.host}/b/c:3", store)

    assert whole > 3_000_000
    assert more < 50_000 and way.sent < more
    assert digest(manifest(f"{registry}/b/c:3") or b"") == second.digest


def test_no_tag_is_on_half_an_image_and_the_next_push_goes_on(registry: str, store: Store) -> None:
    made = finished(store, new_to_every_registry(2), new_to_every_registry(3))
    with connection_to(registry) as way:
        way.limit = 4_000_000
        with pytest.raises(WorldFault, match="a transfer from or to a registry failed") as caught:
            push(made, f"{way.host}/d/e:1", store)
        assert manifest(f"{registry}/d/e:1") is None
        way.limit = way.sent = 0

        push(made, f"{way.host}/d/e:1", store)

    assert way.host in caught.value.value and caught.value.remedy
    assert digest(manifest(f"{registry}/d/e:1") or b"") == made.digest
    assert list((store.root / "aside").iterdir()) == []


def test_an_older_image_stays_under_its_tag_while_a_push_fails(registry: str, store: Store) -> None:
    old, new = finished(store, SMALL), finished(store, SMALL, new_to_every_registry(4))
    push(old, f"{registry}/f/g:1", store)
    with connection_to(registry) as way:
        way.limit = 1_000_000
        with pytest.raises(WorldFault):
            push(new, f"{way.host}/f/g:1", store)

    assert digest(manifest(f"{registry}/f/g:1") or b"") == old.digest


def test_a_layer_that_is_damaged_in_place_is_removed(registry: str, store: Store) -> None:
    made = finished(store, new_to_every_registry(7))
    place = store.place(packed(store, made.layers[0], "zstd")[0])
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)

    with pytest.raises(Damaged, match=str(place)):
        push(made, f"{registry}/h/damaged:1", store)
    assert not place.exists()


def push_at_once(made: Image, host: str, store: Store) -> None:
    """Push with the patience of a second."""
    access = Access(environ={"PATH": os.environ["PATH"]}, wait=lambda _: None)
    alone = dataclasses.replace(made, tags=made.tags[:1])
    with store.temporary(directory=True) as aside:
        write_layout(aside / "layout", [alone], store, "zstd", linked=True)
        remote = reference.Remote(host, "s/t")
        skopeo.Server(remote, access, aside, patience=1.5).push("1")


def test_a_push_to_a_registry_that_falls_silent_is_given_up(registry: str, store: Store) -> None:
    made = finished(store, new_to_every_registry(6))
    with connection_to(registry) as way:
        way.limit, way.stall = 1_000_000, True
        with pytest.raises(WorldFault, match="does not answer") as caught:
            push_at_once(made, way.host, store)

    assert way.host in caught.value.value and caught.value.remedy
    assert list((store.root / "aside").iterdir()) == []


def test_a_login_of_docker_opens_a_registry(store: Store, tmp_path: Path) -> None:
    made = finished(store, SMALL)
    with running(tmp_path / "locked", locked=True) as host:
        for entry in ({}, {"auth": base64.b64encode(b"user:hidden").decode()}):
            (store.root / "config.json").write_text(json.dumps({"auths": {host: entry}}))
            with pytest.raises(UserFault, match="wants a login") as caught:
                push(made, f"{host}/a/b:1", store)
            assert f"docker login {host}" in caught.value.remedy
            assert "hidden" not in str(caught.value)
        known = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
        (store.root / "config.json").write_text(json.dumps({"auths": {host: {"auth": known}}}))

        push(made, f"{host}/a/b:1", store)

        found = manifest(f"{host}/a/b:1", f"--creds=user:{PASSWORD}")
    assert found and digest(found) == made.digest


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for 0.0.0.0, which leads to this machine and is not among the names that need no TLS."""
    return certificate(tmp_path_factory.mktemp("certificate"), "IP:0.0.0.0")


@pytest.mark.parametrize("given", ["pip", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_is_trusted_as_the_user_says(store: Store, own: Path, tmp_path: Path, given: str) -> None:
    made, bundle = finished(store, SMALL), str(own)
    with running(tmp_path / "tls", certificate=own) as host:
        elsewhere = host.replace("127.0.0.1", "0.0.0.0")
        with pytest.raises(WorldFault, match="certificate is not trusted"):
            push(made, f"{elsewhere}/a/b:1", store)

        if given == "pip":
            push(made, f"{elsewhere}/a/b:1", store, certificate=bundle)
        else:
            relative = os.path.relpath(bundle)  # skopeo works in a directory of its own
            push(made, f"{elsewhere}/a/b:1", store, environ={given: relative})

        assert digest(manifest(f"{host}/a/b:1") or b"") == made.digest


def test_plain_http_is_for_this_machine_only(registry: str, store: Store) -> None:
    made = finished(store, SMALL)

    with pytest.raises(WorldFault, match="plain HTTP"):
        push(made, f"{registry.replace('127.0.0.1', '0.0.0.0')}/a/b:1", store)
