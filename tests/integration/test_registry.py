"""Bases out of registries: a real one, filled by skopeo, and one that fails as told."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.base.pulled import Foreign, bring
from images.host.context import Access
from images.host.download import Reach
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.oci import reference
from tests.support.fault_server import Faulty, Reply, serving
from tests.support.harness import call
from tests.support.registry import running
from tests.support.stand_in import SYSTEM, Image, layout, write

NAME = "intel/intel-optimized-pytorch"
TAG = "2.4.0-pip-multinode"
PASSWORD = "secret:word"
HTPASSWD = "user:$2b$04$hWwfVgYSXE52Wmc1eD.cC.jgLxOv/Gzl3SK6XZh.oGHdMSwPo30KW\n"
BASIC = "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()


def push(source: Path, host: str, *options: str, tag: str = TAG) -> None:
    """Copy the stand-in into a registry as it is."""
    target = f"docker://{host}/{NAME}:{tag}"
    command = ["skopeo", "copy", "--insecure-policy", "--preserve-digests", "--dest-tls-verify=false"]
    assert call([*command, *options, f"oci:{source}:{tag}", target], seconds=120).code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the stand-in as an OCI layout; skip where there is no registry to fill with it."""
    for program, package in (("docker-registry", "docker-registry"), ("skopeo", "skopeo")):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt-get install {package}")
    folder = tmp_path_factory.mktemp("registry")
    images = {TAG: Image(), "zstd": Image(compression="zstd"), "arm64": Image(architecture="arm64")}
    return write(folder / "layout", layout(images)).parent


@pytest.fixture(scope="module")
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that anybody may pull from."""
    with running(folder / "open") as host:
        for tag in (TAG, "zstd", "arm64"):
            push(folder / "layout", host, tag=tag)
        yield host


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[str]:
    """Run a registry that wants a user and a password."""
    (folder / "htpasswd").write_text(HTPASSWD)
    with running(folder / "locked", f"auth: {{htpasswd: {{realm: ours, path: {folder}/htpasswd}}}}") as host:
        push(folder / "layout", host, f"--dest-creds=user:{PASSWORD}")
        yield host


class Pull:
    """One user's pulls: a store, a Docker configuration, and what was said and waited."""

    def __init__(self, root: Path) -> None:
        self.root, self.said, self.waited, self.came = root, list[str](), list[float](), list[int]()
        self.environ = {"DOCKER_CONFIG": str(root), "PATH": f"{root}:{os.environ['PATH']}"}

    def __call__(self, text: str, mirror: str | None = None) -> Foreign:
        access = Access(environ=self.environ, reach=Reach(wait=self.waited.append), mirror=mirror, say=self.said.append)
        return bring(reference.parse(text), Store(self.root / "store"), access, self.came.append)

    def configure(self, config: object) -> None:
        """Write Docker's configuration."""
        (self.root / "config.json").write_text(json.dumps(config))

    def aside(self) -> list[Path]:
        """List what is half-written."""
        return list((self.root / "store" / "aside").iterdir())


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Begin with nothing."""
    return Pull(tmp_path)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_the_base_comes_with_its_own_digests(registry: str, pull: Pull, compression: str) -> None:
    image = Image(compression=compression)

    found = pull(f"{registry}/{NAME}:{TAG if compression == 'gzip' else compression}")

    assert found.digest == image.digest
    assert [f"sha256:{under.written.digest}" for under in found.layers] == image.layers
    assert {under.compression for under in found.layers} == {compression}
    assert (found.facts.glibc, found.facts.sshd) == ("2.35", "usr/sbin/sshd")
    assert sum(pull.came) == sum(len(d) for name, d in image.blobs.items() if name != image.digest)


def test_a_digest_is_as_good_as_a_tag_and_what_is_there_is_not_fetched_again(registry: str, pull: Pull) -> None:
    first = pull(f"{registry}/{NAME}:{TAG}")
    pull.came.clear()

    second = pull(f"{registry}/{NAME}@{first.digest}")

    assert (second.layers, second.facts) == (first.layers, first.facts)
    assert pull.came == []


def test_another_architecture_is_refused_before_its_layers_are_fetched(registry: str, pull: Pull) -> None:
    with pytest.raises(UserFault, match="linux/arm64"):
        pull(f"{registry}/{NAME}:arm64")

    assert sum(pull.came) < min(len(Image().blobs[digest]) for digest in Image().layers)


def test_what_the_registry_has_not_is_a_fault_of_the_user(registry: str, pull: Pull) -> None:
    with pytest.raises(UserFault) as caught:
        pull(f"{registry}/{NAME}:none")

    assert caught.value.value == f"{registry}/{NAME}:none (status 404, MANIFEST_UNKNOWN)"


def test_a_login_of_docker_opens_a_registry(locked: str, pull: Pull) -> None:
    with pytest.raises(UserFault, match=f"docker login {locked}"):
        pull(f"{locked}/{NAME}:{TAG}")
    pull.configure({"auths": {locked: {"auth": BASIC.removeprefix("Basic ")}}})

    assert pull(f"{locked}/{NAME}:{TAG}").digest == Image().digest


def test_a_wrong_password_is_refused_and_not_said(locked: str, pull: Pull) -> None:
    pull.configure({"auths": {locked: {"auth": base64.b64encode(b"user:hidden").decode()}}})

    with pytest.raises(UserFault) as caught:
        pull(f"{locked}/{NAME}:{TAG}")

    assert "401" in caught.value.value
    assert "hidden" not in str(caught.value) and "user" not in caught.value.value


def helper(pull: Pull, key: str, script: str) -> None:
    path = pull.root / "docker-credential-test"
    path.write_text(f"#!/bin/sh\nread -r asked\n[ \"$1 $asked\" = 'get {key}' ] || exit 3\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("setting", ["credsStore", "credHelpers"])
def test_a_credential_helper_is_asked(locked: str, pull: Pull, setting: str) -> None:
    helper(pull, locked, f'echo \'{{"ServerURL": "x", "Username": "user", "Secret": "{PASSWORD}"}}\'')
    pull.configure({setting: "test" if setting == "credsStore" else {locked: "test"}})

    assert pull(f"{locked}/{NAME}:{TAG}").digest == Image().digest


@pytest.mark.parametrize(
    ("script", "kind", "fact"),
    [
        ("echo credentials not found in native keychain; exit 1", UserFault, "the registry wants a login"),
        ("echo hidden; exit 1", WorldFault, "a credential helper failed"),
        ("echo hidden", WorldFault, "a credential helper answered something unknown"),
    ],
)
def test_a_credential_helper_that_fails_is_named(
    locked: str, pull: Pull, script: str, kind: type[Fault], fact: str
) -> None:
    helper(pull, locked, script)
    pull.configure({"credsStore": "test"})

    with pytest.raises(kind, match=fact) as caught:
        pull(f"{locked}/{NAME}:{TAG}")

    assert "hidden" not in str(caught.value)


def test_a_missing_credential_helper_is_named(locked: str, pull: Pull) -> None:
    pull.configure({"credsStore": "nowhere"})

    with pytest.raises(WorldFault, match="docker-credential-nowhere"):
        pull(f"{locked}/{NAME}:{TAG}")


def test_a_mirror_is_asked_first(registry: str, folder: Path, pull: Pull) -> None:
    with running(folder / "mirror", f"proxy: {{remoteurl: 'http://{registry}'}}") as mirror:
        found = pull(f"registry.invalid/{NAME}:{TAG}", mirror)

    assert found.digest == Image().digest
    assert pull.said == []


def test_a_mirror_that_does_not_help_is_named_once_and_left(registry: str, pull: Pull) -> None:
    with serving(Faulty(Image(), login="nobody")) as mirror:
        found = pull(f"{registry}/{NAME}:{TAG}", f"http://{mirror.host}")

    assert found.digest == Image().digest
    assert len(pull.said) == 1
    assert mirror.host in pull.said[0] and registry in pull.said[0]


def test_a_mirror_with_a_project_has_the_name_below_it(pull: Pull) -> None:
    with serving(Faulty(Image())) as mirror:
        pull("registry.invalid/a/b:1", f"{mirror.host}/hub")

    assert mirror.asked[0][0] == "/v2/hub/a/b/manifests/1"


@pytest.mark.parametrize("identity", [False, True])
def test_a_token_is_got_by_logging_in(pull: Pull, identity: bool) -> None:
    with serving(Faulty(Image(), login="refresh" if identity else BASIC)) as server:
        entry = {"identitytoken": "refresh"} if identity else {"auth": BASIC.removeprefix("Basic ")}
        pull.configure({"auths": {server.host: entry}})

        assert pull(f"{server.host}/a/b:1").digest == Image().digest


def test_netrc_does_not_take_the_place_of_a_token(pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
    (pull.root / "netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(pull.root / "netrc"))
    with serving(Faulty(Image(), login=BASIC)) as server:
        pull.configure({"auths": {server.host: {"auth": BASIC.removeprefix("Basic ")}}})

        assert pull(f"{server.host}/a/b:1").digest == Image().digest

    assert "Authorization" not in server.asked[0][1]


def test_a_token_does_not_follow_a_redirect_to_another_server(pull: Pull) -> None:
    with serving(Faulty(Image())) as storage, serving(Faulty(Image(), login=BASIC)) as server:
        pull.configure({"auths": {server.host: {"auth": BASIC.removeprefix("Basic ")}}})
        server.instead = {
            LAYER: [Reply(307, headers={"Location": f"http://{storage.host}/v2/a/b/blobs/{LAYER}?sign=x"})]
        }

        pull(f"{server.host}/a/b:1")

    assert [("Authorization" in headers) for _, headers in storage.asked] == [False]


def test_a_token_for_nobody_is_tried_where_nobody_logged_in(pull: Pull) -> None:
    with serving(Faulty(Image(), login="")) as server:
        server.login, server.instead = "x", {"/token": [Reply(200, b'{"access_token": "other"}')]}

        with pytest.raises(UserFault, match="the registry wants a login"):
            pull(f"{server.host}/a/b:1")

    asked = [path for path, _ in server.asked]
    assert asked[1].startswith("/token?service=127.0.0.1%3A") and asked[1].endswith("&scope=repository%3Aa%2Fb%3Apull")
    assert [headers.get("Authorization") for _, headers in server.asked] == [None, None, "Bearer other"]


LAYER = Image().layers[1]
SIZE = len(Image().blobs[LAYER])


def starts(server: Faulty) -> list[int]:
    """List where in the layer each request for it began."""
    wanted = [headers.get("Range", "bytes=0-") for path, headers in server.asked if path.endswith(LAYER)]
    return [int(text.removeprefix("bytes=").removesuffix("-")) for text in wanted]


def test_a_cut_download_goes_on_where_it_was_cut(pull: Pull) -> None:
    half = Reply(200, Image().blobs[LAYER], cut=SIZE // 2)
    with serving(Faulty(Image(), {LAYER: [half]})) as server:
        pull(f"{server.host}/a/b:1")

    first, second = starts(server)
    assert (first, 0 < second <= SIZE // 2) == (0, True)
    assert pull.aside() == []


def test_an_interrupted_build_goes_on_where_it_was(pull: Pull) -> None:
    half = Reply(200, Image().blobs[LAYER], cut=SIZE // 2)
    nothing = [Reply(503)] * 3
    with serving(Faulty(Image(), {LAYER: [half, *nothing]})) as server:
        with pytest.raises(WorldFault, match="status 503"):
            pull(f"{server.host}/a/b:1")
        server.asked.clear()

        pull(f"{server.host}/a/b:1")

    assert all(0 < start <= SIZE // 2 for start in starts(server))
    assert list((pull.root / "store" / "unfinished").iterdir()) == []


def test_a_server_that_cannot_continue_begins_again(pull: Pull) -> None:
    half = Reply(200, Image().blobs[LAYER], cut=SIZE // 2)
    with serving(Faulty(Image(), {LAYER: [half]}, ranges=False)) as server:
        assert pull(f"{server.host}/a/b:1").digest == Image().digest


def test_a_server_that_always_cuts_at_one_place_is_given_up(pull: Pull) -> None:
    half = Reply(200, Image().blobs[LAYER], cut=SIZE // 2)
    with (
        serving(Faulty(Image(), {LAYER: [half] * 20}, ranges=False)) as server,
        pytest.raises(WorldFault, match="cannot download"),
    ):
        pull(f"{server.host}/a/b:1")

    assert sum(LAYER in path for path, _ in server.asked) < 20


def test_a_damaged_beginning_is_thrown_away(pull: Pull) -> None:
    place = pull.root / "store" / "unfinished" / LAYER.removeprefix("sha256:")
    place.parent.mkdir(parents=True)
    place.write_bytes(b"damaged")
    with serving(Faulty(Image())) as server:
        assert pull(f"{server.host}/a/b:1").digest == Image().digest


@pytest.mark.parametrize("pause", ["7", "0"])
def test_a_busy_registry_is_asked_again_after_the_pause_it_wants(pull: Pull, pause: str) -> None:
    with serving(Faulty(Image(), {"/manifests/1": [Reply(429, headers={"Retry-After": pause})]})) as server:
        pull(f"{server.host}/a/b:1")

    assert pull.waited == [float(pause)]


def test_a_token_that_runs_out_is_renewed(pull: Pull) -> None:
    image = Image([SYSTEM])
    late = Reply(401, headers={"WWW-Authenticate": "Bearer realm=http://HOST/token"})
    with serving(Faulty(image, login=BASIC)) as server:
        pull.configure({"auths": {server.host: {"auth": BASIC.removeprefix("Basic ")}}})
        renewed = {"WWW-Authenticate": late.headers["WWW-Authenticate"].replace("HOST", server.host)}
        server.instead = {image.layers[0]: [Reply(401, headers=renewed)]}

        assert pull(f"{server.host}/a/b:1").digest == image.digest

    assert sum(path.startswith("/token") for path, _ in server.asked) == 2


@pytest.mark.parametrize(
    ("end", "replies", "kind", "words"),
    [
        ("/manifests/1", [Reply(429, headers={"Retry-After": "3600"})], WorldFault, "status 429"),
        ("/manifests/1", [Reply(429)] * 3, WorldFault, "too many requests"),
        ("/manifests/1", [Reply(500)] * 3, WorldFault, "status 500"),
        ("/manifests/1", [Reply(403)], UserFault, "does not let you"),
        ("/manifests/1", [Reply(200, b"<html>login</html>")], WorldFault, "not JSON"),
        ("/manifests/1", [Reply(200, b"x" * (5 << 20))], WorldFault, "too long"),
        ("/manifests/1", [Reply(302, headers={"Location": "/v2/a/b/manifests/1"})] * 40, WorldFault, "redirects"),
        ("/manifests/1", [Reply(200, b'{"schemaVersion": 1}')], UserFault, "schema 1"),
        (
            "/manifests/1",
            [Reply(200, b"{}", {"Docker-Content-Digest": "sha256:" + "0" * 64})],
            WorldFault,
            "another digest",
        ),
        ("/manifests/1", [Reply(401, headers={"WWW-Authenticate": "Bearer realm=ftp://x"})], WorldFault, "unsafe"),
        (LAYER, [Reply(200, b"x" * SIZE)], WorldFault, "another sha256"),
        (LAYER, [Reply(200, b"x" * SIZE * 2)], WorldFault, "another sha256"),
        (LAYER, [Reply(404)], UserFault, "no such image"),
        ("/token", [Reply(200, b"<html>")], WorldFault, "without a token"),
        ("/token", [Reply(200, b'{"token": "a\\nb"}')], WorldFault, "without a token"),
    ],
)
def test_every_failure_is_said_in_three_parts(
    pull: Pull, end: str, replies: list[Reply], kind: type[Fault], words: str
) -> None:
    faulty = Faulty(Image(), {end: list(replies)}, login="x" if end == "/token" else None)
    with serving(faulty) as server, pytest.raises(kind, match=words) as caught:
        pull(f"{server.host}/a/b:1")

    assert caught.value.fact and caught.value.value and caught.value.remedy
    assert pull.aside() == []


def test_nobody_answers(pull: Pull) -> None:
    with pytest.raises(WorldFault, match=r"127\.0\.0\.1:9") as caught:
        pull("127.0.0.1:9/a/b:1")

    assert "--registry-mirror" in caught.value.remedy
    assert len(pull.waited) == 2
