"""One image for two platforms, of stand-ins: pushed to a real registry and written as a layout, read, and verified."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from images.oci import indexes
from images.oci.indexes import LAYOUT, TAG
from images.oci.manifest import INDEXES, descriptor
from images.platforms import AMD64, ARM64, PLATFORMS
from tests.golden import base
from tests.support import checkout, wheels
from tests.support.checkout import PAIR, Checkout
from tests.support.harness import Done, assert_three_parts, call
from tests.support.locks import read
from tests.support.registry import manifest as manifest_at
from tests.support.registry import needed, running
from tests.support.stand_in import Files, Image, digest, write

pytestmark = needed

BOTH = ",".join(map(str, PLATFORMS))
BASE = ("--base", "oci:base")
REQUEST = (*PAIR, *BASE, "--python", "3.11", "--examples", "none", "--no-bytecode", "--no-load", "--json")
MPICH = {f"mpich-5.0.2.data/data/{path}": b"of MPICH" for path in ("bin/mpiexec.hydra", "lib/libmpi.so.12")}


class Pushed(NamedTuple):
    """Sources that built both images, what they said, and the repository that these were pushed to, of a registry."""

    sources: Checkout
    said: dict[str, Any]
    host: str
    name: str

    @property
    def reference(self) -> str:
        return f"{self.host}/{self.name}:1"

    @property
    def digests(self) -> list[str]:
        """Return the digests of the manifests, in the order of PLATFORMS."""
        return [self.said["platforms"][str(platform)]["digest"] for platform in PLATFORMS]

    def verify(self, name: str, *words: str) -> Done:
        return self.sources.run("verify", name, *BASE, "--json", *words)

    def put(self, tag: str, rows: Sequence[dict[str, Any]]) -> str:
        """Push an index of these entries, and return what to verify."""
        place = f"http://{self.host}/v2/{self.name}/manifests/{tag}"
        assert requests.put(place, indexes.write_list(rows), headers={"Content-Type": INDEXES[0]}).ok
        return f"docker://{self.host}/{self.name}:{tag}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the entries of the index in the registry."""
        return list(json.loads(manifest_at(self.reference) or b"")["manifests"])


def for_arm64(files: Files) -> Files:
    """Return files of the base as they are called on arm64."""
    names = ((AMD64.multiarch, ARM64.multiarch), ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"))
    renamed = dict(files)
    for old, new in names:
        renamed = {path.replace(old, new): content for path, content in renamed.items()}
    return renamed


def write_base(place: Path) -> None:
    """Write a layout with a base for both platforms."""
    images = [Image([base.SYSTEM], "none"), Image([for_arm64(base.SYSTEM)], "none", architecture="arm64")]
    index = indexes.published(
        [(image.blobs[image.digest], platform) for image, platform in zip(images, PLATFORMS, strict=True)]
    )
    blobs = {**images[0].blobs, **images[1].blobs, digest(index): index}
    entry = {**descriptor(INDEXES[0], digest(index), len(index)), "annotations": {TAG: "1"}}
    files = {"blobs/" + name.replace(":", "/"): data for name, data in blobs.items()}
    write(place, {**files, "oci-layout": LAYOUT, "index.json": indexes.write_list([entry])})


@pytest.fixture(scope="module")
def built(module_path: Path) -> Iterator[Pushed]:
    sources = checkout.make(module_path)
    write_base(sources.place / "base")
    for path in (sources.place / "wheels").glob("*-linux_x86_64.whl"):
        shutil.copyfile(path, path.with_name(path.name.replace(AMD64.machine, ARM64.machine)))
    wheels.write(sources.place / "wheels", "mpich", "5.0.2", MPICH, tag=f"py3-none-linux_{ARM64.machine}")
    with running(module_path / "registry") as host:
        places = ("--output", "layout/", "--push", f"{host}/team/image:1", "--tag", "team/image:1")
        done = sources.run(*REQUEST, "--platform", BOTH, *places)
        assert done.code == 0
        yield Pushed(sources, json.loads(done.out), host, "team/image")


def test_each_image_of_the_index_is_that_of_a_build_for_its_platform_alone(built: Pushed) -> None:
    alone = [json.loads(built.sources.run(*REQUEST, "--platform", str(platform)).out) for platform in PLATFORMS]

    assert built.digests == [answer["digest"] for answer in alone]
    assert len({*built.digests, built.said["digest"]}) == 3
    locks = [read(built.sources.place / f"pylock.layout-{platform.architecture}.toml") for platform in PLATFORMS]
    assert [lock.platform for lock in locks] == [*PLATFORMS]


def test_clients_find_the_image_of_each_platform_in_the_registry_and_in_the_layout(
    built: Pushed, tmp_path: Path
) -> None:
    assert built.said["pushed"] == [f"{built.reference}@{built.said['digest']}"]
    index = manifest_at(built.reference) or b""
    layout = call(["skopeo", "inspect", "--raw", f"oci:{built.sources.place}/layout:1"]).out.encode()
    assert digest(index) == digest(layout) == built.said["digest"]
    copy = ["skopeo", "copy", "--insecure-policy", "--preserve-digests", "--src-tls-verify=false"]
    for platform, expected in zip(PLATFORMS, built.digests, strict=True):
        place = tmp_path / platform.architecture
        chosen = [*copy, "--override-os", platform.os, "--override-arch", platform.architecture]
        assert call([*chosen, f"docker://{built.reference}", f"oci:{place}:1"]).code == 0
        assert json.loads((place / "index.json").read_bytes())["manifests"][0]["digest"] == expected
        assert digest(manifest_at(f"{built.host}/{built.name}@{expected}") or b"") == expected


def test_every_image_is_verified_with_its_documents(built: Pushed) -> None:
    verified = [json.loads(built.verify(name).out) for name in (f"docker://{built.reference}", "layout")]

    for answer in verified:
        assert (answer["same"], answer["index"]) == (True, built.said["digest"])
        assert [one["manifest"] for one in answer["platforms"].values()] == built.digests
    assert all(document for one in verified[0]["platforms"].values() for document in one["attached"].values())
    assert [len(one["attached"]) for one in verified[0]["platforms"].values()] == [2, 2]


def test_one_image_of_it_is_verified_and_read(built: Pushed) -> None:
    words = (f"docker://{built.reference}", "--platform", str(ARM64))

    assert json.loads(built.verify(*words).out)["manifest"] == built.digests[1]
    statement = json.loads(built.sources.run("provenance", *words).out)
    assert statement["subject"][0]["digest"]["sha256"] == built.digests[1].removeprefix("sha256:")


def test_an_index_that_leads_an_engine_to_another_image_is_refused(built: Pushed) -> None:
    amd64, arm64 = built.rows
    swapped = [{**amd64, "platform": arm64["platform"]}, {**arm64, "platform": amd64["platform"]}]
    beside = [amd64, arm64, {**arm64, "platform": {"os": "linux", "architecture": "riscv64"}}]

    assert_three_parts(built.verify(built.put("swapped", swapped)), 2, f"({AMD64})", f"an image for {ARM64}")
    assert_three_parts(built.verify(built.put("beside", beside)), 2, arm64["digest"], "NAME@sha256:")
    assert_three_parts(built.verify(built.put("one", [amd64]), "--platform", str(ARM64)), 2, str(AMD64), str(ARM64))


def test_a_lock_is_compared_with_the_image_of_its_platform(built: Pushed) -> None:
    lock = ("--lock", "pylock.layout-arm64.toml")

    assert_three_parts(built.verify("layout", *lock), 2, BOTH.replace(",", ", "), f"--platform {ARM64}")
    assert built.verify("layout", *lock, "--platform", str(ARM64)).code == 0
