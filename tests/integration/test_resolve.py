"""uv, asked for tiny wheels: from an index that names no days (PEP 503), and from a wheelhouse in doubt."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.lock import collect, resolve, uv, wheelhouse
from images.lock.lock import UserPackages
from images.pip_config import BUNDLES, Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from images.store.store import Store
from tests.support import locks, wheels
from tests.support.certificates import certificate as certify
from tests.support.web import Server, serving

WHOLE = planner.make_plan(Request(torch="2.13.0", transformers="5.23.0"), catalog.load())
PLAN = dataclasses.replace(WHOLE, requirements=("torch==2.13.0", "transformers==5.23.0"))
PINNED = dataclasses.replace(PLAN, requirements=(*PLAN.requirements, "six==1.17.0"))
# File name without the end, and what it requires.
WHEELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch-2.13.0+cpu-py3-none-any", ()),
    ("transformers-5.23.0-py3-none-any", ("six",)),
    ("six-1.17.0-py3-none-any", ()),
)
SAME, OTHER = b"the content of the good wheel", b"the same with another byte in a module"


def wheel(folder: Path, name: str, requires: Sequence[str] = (), content: bytes = b"a module") -> Path:
    """Write a wheel that can be resolved."""
    project, version, tag = name.split("-", 2)
    return wheels.write(folder, project, version, {f"{project}.py": content}, requires, tag=tag)


def _crc(data: bytes) -> bytes:
    return struct.pack("<L", zlib.crc32(data))


def publish(server: Server, path: Path, index: str = "/simple", *, hashed: bool = True) -> str:
    """Put a wheel on the page of its project, alone, as PEP 503 has it: a link without a day; return its address."""
    data, place = path.read_bytes(), f"/files/{path.name.replace('+', '%2B')}"
    end = f"#sha256={hashlib.sha256(data).hexdigest()}" if hashed else ""
    project = path.name.partition("-")[0].replace("_", "-")
    server.headers, server.pages[place] = {"Content-Type": "text/html"}, data
    server.pages[f"{index}/{project}/"] = f'<a href="{place}{end}">{path.name}</a>'.encode()
    return f"{server.url}{place}"


def fill(server: Server, tmp_path: Path) -> Server:
    """Put the wheels on a server."""
    for name, requires in WHEELS:
        publish(server, wheel(tmp_path / "served", name, requires))
    return server


def source_of(server: Server, login: str = "") -> Sources:
    """Return the index of a server as pip is told of it."""
    return Sources(index=f"{server.url}/simple".replace("//", f"//{login}@" if login else "//"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve the wheels without days."""
    with serving() as started:
        yield fill(started, tmp_path)


@pytest.fixture
def index(server: Server) -> Sources:
    return source_of(server)


def folder_of(tmp_path: Path) -> Path:
    """Make a wheelhouse with everything in it."""
    for name, requires in WHEELS:
        wheel(tmp_path / "wheels", name, requires)
    return tmp_path / "wheels"


def test_an_index_that_names_no_days_is_named(index: Sources, store: Store) -> None:
    with pytest.raises(UserFault, match="does not say when its files were uploaded") as caught:
        resolve.resolve_packages(PLAN, locks.context(store, index, os.environ))

    assert caught.value.value == f"six (asked: {index.index})"


def test_what_is_pinned_is_taken_from_an_index_that_names_no_days(index: Sources, store: Store) -> None:

    resolved = resolve.resolve_packages(PINNED, locks.context(store, index, os.environ))

    assert set(resolved.undated) == {"six", "torch", "transformers"}


def with_own(store: Store, folder: Path, *lines: str) -> tuple[resolve.Resolved, UserPackages | None]:
    """Resolve the plan with packages of the user's, out of a folder."""
    plan = dataclasses.replace(PLAN, user_packages=lines)
    return resolve.resolve_with_users(
        plan, locks.context(store, Sources(no_index=True, links=(str(folder),)), os.environ)
    )


def of_users(tmp_path: Path) -> Path:
    """Make a folder that has packages of a user's, too."""
    folder = folder_of(tmp_path)
    wheel(folder, "peft-1.0-py3-none-any", ("six", "grpcio"))
    wheel(folder, "peft-2.0-py3-none-any", ("transformers<5",))
    wheel(folder, "grpcio-1.0-py3-none-any")
    wheel(folder, "gpu-1.0-py3-none-any", ("nvidia-cublas",))
    wheel(folder, "above-1.0-py3-none-any", ("gpu",))
    wheel(folder, "nvidia_cublas-1.0-py3-none-any")
    (folder / "source-1.0.tar.gz").write_bytes(b"")
    return folder


def test_a_users_packages_come_with_what_only_they_need(store: Store, tmp_path: Path) -> None:
    resolved, users = with_own(store, of_users(tmp_path), "peft")

    assert users == UserPackages(("peft",), ("grpcio", "peft"))
    assert {artifact.name: artifact.version for artifact in resolved.artifacts} == {
        "torch": "2.13.0+cpu", "transformers": "5.23.0", "six": "1.17.0", "peft": "1.0", "grpcio": "1.0"
    }  # fmt: skip


def test_a_plan_without_them_is_resolved_alone(store: Store, tmp_path: Path) -> None:
    resolved, users = with_own(store, of_users(tmp_path))

    assert users is None and {artifact.name for artifact in resolved.artifacts} == {"torch", "transformers", "six"}


@pytest.mark.parametrize(
    ("lines", "fact", "said"),
    [
        (("peft==2.0",), "what cannot be had", ("asked: peft==2.0: ", "transformers<5", "transformers==5.23.0")),
        (("six<1 --constraint",), "do not go with the image", ("asked: six<1 (--constraint): ", "transformers", "six")),
        (("source==1.0",), "has no wheel for the image", ("source==1.0",)),
        (("peft==1.0", "peft==2.0"), "do not go together", ("peft==1.0", "peft==2.0")),
        (("gpu",), "has packages for a GPU", ("nvidia-cublas 1.0",)),
        (("above", "peft"), "has packages for a GPU", ("nvidia-cublas 1.0", "another release of it: above")),
        (("peft==1.0 --hash=sha256:" + "0" * 64,), "none of those that the requirements state", ("peft-1.0-py3",)),
    ],
)
def test_what_does_not_go_with_the_image_is_said_with_both_sides(
    store: Store, tmp_path: Path, lines: tuple[str, ...], fact: str, said: tuple[str, ...]
) -> None:
    with pytest.raises(UserFault, match=fact) as caught:
        with_own(store, of_users(tmp_path), *lines)

    assert all(words in str(caught.value) for words in said), caught.value


def fill_dated(server: Server, folder: Path, withdrawn: str) -> Sources:
    """Put the files of a folder on an index that says their days (PEP 691, 700), one of them as withdrawn (PEP 592)."""
    server.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    for name in {path.name.partition("-")[0] for path in folder.iterdir()}:
        rows: list[dict[str, object]] = []
        for path in sorted(folder.glob(f"{name}-*")):
            server.pages[f"/files/{path.name}"] = data = path.read_bytes()
            row = {"filename": path.name, "url": f"/files/{path.name.replace('+', '%2B')}", "size": len(data)}
            hashes = {"sha256": hashlib.sha256(data).hexdigest()}
            yanked = "c==9 has no usable wheels, (it is a mistake)" if path.name.startswith(withdrawn) else False
            rows.append({**row, "hashes": hashes, "upload-time": "2024-06-01T00:00:00.000000Z", "yanked": yanked})
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": rows, "versions": []}
        server.pages[f"/simple/{name.replace('_', '-')}/"] = json.dumps(page).encode()
    return source_of(server)


HELPED = {"helper-2.0": (), "helper-1.0": (), "lib_core-1.0": ("helper>=2",), "app-1.0": ("lib_core>=1",)}
WITHDRAWN = {"low-1.0": (), "low-1.1": ()}


@pytest.mark.parametrize(
    ("files", "lines", "typed"),
    [
        (HELPED, ("app==1.0", "helper==1.0"), ("app==1.0", "helper==2.0")),
        ({"helper-2.0": (), "helper-1.0": ("six<1",)}, ("helper<2",), ("helper==2.0",)),  # the image has another six
        ({"app-1.0": (), "app-0.9": ()}, ("app==1.0", "app<1"), ("app==1.0",)),
        ({**WITHDRAWN, "app-1.0": ("low==1.1",)}, ("app==1.0",), ("app==1.0", "low==1.1")),
        ({**WITHDRAWN, "app-1.0": ("low>1.0",), "other-1.0": ()}, ("app", "other"), ("app", "low==1.1", "other")),
        ({"low-1.1": ("six<1",), "app-1.0": ("low==1.1",)}, ("app==1.0",), ()),  # it would not help
        ({"app-1.0": ("low>=2",), "low-1.0": ()}, ("app==1.0",), ()),
    ],
)
def test_a_remedy_is_one_that_works(
    server: Server, store: Store, tmp_path: Path, files: Mapping[str, Sequence[str]], lines: tuple[str, ...],
    typed: tuple[str, ...],
) -> None:  # fmt: skip
    folder = folder_of(tmp_path)
    for name, requires in files.items():
        wheel(folder, f"{name}-py3-none-any", requires)
    (folder / "lib_core-1.1.tar.gz").write_bytes(b"")
    context = locks.context(store, fill_dated(server, folder, "low-1.1"), os.environ)
    plan = dataclasses.replace(PLAN, user_packages=lines)

    with pytest.raises(UserFault) as caught:
        resolve.resolve_with_users(plan, context)

    remedy = caught.value.remedy
    if swap := re.match("(.+) in place of (.+?), or ", remedy):
        left = [line for line in lines if line not in swap[2].split(" and ")]
        assert tuple(sorted([*left, swap[1]])) == typed
    elif more := re.match("--package (.+) as well, ", remedy):
        assert tuple(sorted([*lines, more[1]])) == typed
    else:
        assert typed == () and "==" not in remedy
        return
    _, users = resolve.resolve_with_users(dataclasses.replace(plan, user_packages=typed), context)
    assert users and users.requirements == typed


def test_what_is_built_with_torch_comes_from_its_index_too(
    server: Server, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyPI's are for CUDA, and PyTorch's index says no days."""
    wheel(tmp_path / "linked", "torchvision-0.28.0-py3-none-any", ("torch==2.13.0",))
    publish(server, wheel(tmp_path / "served", "torchvision-0.28.0+cpu-py3-none-any", ("torch==2.13.0",)), "/cpu")
    sources = dataclasses.replace(source_of(server), links=(str(tmp_path / "linked"),))
    for module in (uv, resolve):
        monkeypatch.setattr(module, "TORCH_INDEX", f"{server.url}/cpu")
    plan = dataclasses.replace(PLAN, requirements=PINNED.requirements, user_packages=("torchvision",))

    resolved, users = resolve.resolve_with_users(plan, locks.context(store, sources, os.environ))

    assert users == UserPackages(("torchvision",), ("torchvision",))
    assert {artifact.version for artifact in resolved.artifacts if artifact.name == "torchvision"} == {"0.28.0+cpu"}


def test_a_hash_that_is_stated_is_that_of_the_file(store: Store, tmp_path: Path) -> None:
    folder = of_users(tmp_path)
    digest = hashlib.sha256((folder / "peft-1.0-py3-none-any.whl").read_bytes()).hexdigest()

    line = f"peft==1.0 --hash=sha256:{'0' * 64} --hash=sha256:{digest}"
    with pytest.raises(UserFault, match="has no hash") as caught:
        with_own(store, folder, line)
    assert caught.value.value == "grpcio==1.0"
    digest = hashlib.sha256((folder / "grpcio-1.0-py3-none-any.whl").read_bytes()).hexdigest()

    _, users = with_own(store, folder, line, f"grpcio==1.0 --constraint --hash=sha256:{digest}")

    assert users and users.names == ("grpcio", "peft")


def source(folder: Path, version: str, ran: Path) -> str:
    """Write a source archive of seqeval that leaves a file when it is built; return its directory."""
    folder.mkdir()
    builds = '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
    about = f"Metadata-Version: 1.0\nName: seqeval\nVersion: {version}\n"
    files = {"setup.py": f"open({str(ran)!r}, 'w').close()\n", "pyproject.toml": builds, "PKG-INFO": about}
    with tarfile.open(folder / f"seqeval-{version}.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"seqeval-{version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return str(folder)


@pytest.mark.parametrize("asked", ["seqeval==1.2.2", "seqeval>=1.2"])
def test_no_release_of_a_source_only_project_is_built(store: Store, tmp_path: Path, asked: str) -> None:
    ran = tmp_path / "ran"
    places = [source(tmp_path / version, version, ran) for version in ("1.2.2", "1.2.2+evil", "1.3")]
    sources = Sources(no_index=True, links=(str(folder_of(tmp_path)), *places))
    alone = tuple(dataclasses.replace(row, requires=()) for row in PLAN.source_only)
    plan = dataclasses.replace(PLAN, requirements=(*PLAN.requirements, asked), source_only=alone)

    resolved = resolve.resolve_packages(plan, locks.context(store, sources, os.environ))

    assert [artifact.version for artifact in resolved.artifacts if artifact.name == "seqeval"] == ["1.2.2"]
    assert not ran.exists()


SIX = "six-1.17.0-py3-none-any"


@pytest.mark.parametrize("looks", [{"COLUMNS": "40", "FORCE_COLOR": "1"}, {"RUST_LOG": "debug"}])
def test_uvs_errors_are_read_whatever_they_look_like(store: Store, looks: dict[str, str]) -> None:
    place = "https://127.0.0.1:9/a/path/that/needs/more/room/than/a/terminal/has/simple"
    environ = {**os.environ, "UV_HTTP_RETRIES": "0", **looks}

    with pytest.raises(WorldFault, match="cannot reach a package index") as caught:
        resolve.resolve_packages(PLAN, locks.context(store, Sources(index=place), environ))

    assert caught.value.value.startswith(f"{place}/t")


def steering(place: Path) -> dict[str, str]:
    """Write what would change uv's answers, and point every variable of uv at it."""
    (place / "constraints.txt").write_text("six<1")
    (place / "uv.toml").write_text("offline = true\n")
    (place / "config/uv").mkdir(parents=True)
    (place / "config/uv/uv.toml").write_text("offline = true\n")
    return {
        "UV_CONSTRAINT": str(place / "constraints.txt"),
        "UV_CONFIG_FILE": str(place / "uv.toml"),
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple",
        "UV_TORCH_BACKEND": "cu130",
        "UV_RESOLUTION": "lowest",
        "XDG_CONFIG_HOME": str(place / "config"),
    }


STEERING = ("UV_CONSTRAINT", "UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_TORCH_BACKEND", "XDG_CONFIG_HOME")


@pytest.mark.parametrize("name", STEERING)
def test_nothing_of_uvs_own_changes_what_is_chosen(index: Sources, store: Store, tmp_path: Path, name: str) -> None:
    environ = {**os.environ, name: steering(tmp_path)[name]}

    resolved = resolve.resolve_packages(PINNED, locks.context(store, index, environ))

    assert [artifact.name for artifact in resolved.artifacts] == ["six", "torch", "transformers"]


def test_a_project_in_the_working_directory_changes_nothing(
    index: Sources, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nconstraint-dependencies = ["six<1"]\noffline = true\n')
    monkeypatch.chdir(tmp_path)

    resolved = resolve.resolve_packages(PINNED, locks.context(store, index, os.environ))

    assert len(resolved.artifacts) == len(WHEELS)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Server]:
    """Serve the wheels to one user."""
    with serving() as server:
        fill(server, tmp_path)
        server.login = "Basic dXNlcjpzZWNyZXQ="  # user:secret
        yield server


def test_any_certificate_of_a_trusted_host_is_accepted(store: Store, tmp_path: Path) -> None:
    with serving(certify(tmp_path)) as server:
        strict = source_of(fill(server, tmp_path))
        with pytest.raises(WorldFault, match=r"cannot reach a package index: .*UnknownIssuer"):
            resolve.resolve_packages(PINNED, locks.context(store, strict, {**os.environ, "UV_HTTP_RETRIES": "0"}))

        context = locks.context(store, dataclasses.replace(strict, trusted=("localhost",)), os.environ)
        resolved = resolve.resolve_packages(PINNED, context)
        wheels = collect.collect_packages(locks.lock(resolved.artifacts, debs=()), context)

    assert len(wheels) == len(WHEELS)


TRUSTING = ("cert", "cert with a directory", "REQUESTS_CA_BUNDLE")


@pytest.mark.parametrize("given", TRUSTING)
def test_an_index_is_asked_with_the_certificates_of_pip_and_requests(store: Store, tmp_path: Path, given: str) -> None:
    certificate = certify(tmp_path)
    (tmp_path / "authorities").mkdir()
    (tmp_path / "authorities/0.pem").write_bytes(certificate.read_bytes())
    environ = {name: value for name, value in os.environ.items() if name not in (*BUNDLES, "SSL_CERT_DIR")}
    with serving(certificate) as server:
        sources = source_of(fill(server, tmp_path))
        if given.startswith("cert"):
            named = tmp_path / "authorities" if "directory" in given else certificate
            sources = dataclasses.replace(sources, certificate=str(named))
        else:
            environ[given] = str(certificate)
        resolved = resolve.resolve_packages(PINNED, locks.context(store, sources, environ))

    assert len(resolved.artifacts) == len(WHEELS)


def test_a_private_index_is_asked_with_its_password_to_the_last_file(private: Server, store: Store) -> None:
    context = locks.context(store, source_of(private, "user:secret"), os.environ)

    resolved = resolve.resolve_packages(PINNED, context)
    wheels = collect.collect_packages(locks.lock(resolved.artifacts, debs=()), context)

    assert [wheel.project for wheel in wheels] == ["six", "torch", "transformers"]
    assert {authorization for _, authorization in private.requests} == {private.login}
    assert not [path for path in store.root.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


CCL = planner.make_plan(Request(torch="2.4.0", transformers="4.46.0"), catalog.load())
BOUND = dataclasses.replace(CCL, requirements=("oneccl_bind_pt==2.4.0", "six==1.17.0"))
BINDINGS = "oneccl_bind_pt-2.4.0+cpu-py3-none-any"


@pytest.fixture
def squatted(server: Server, tmp_path: Path) -> Sources:
    """Put a package of that name, and of a better version, into the public index."""
    publish(server, wheel(tmp_path / "squat", "oneccl_bind_pt-2.4.0+zzz-py3-none-any"), hashed=False)
    return source_of(server)


def test_bindings_of_the_public_index_are_not_taken(
    squatted: Sources, private: Server, store: Store, tmp_path: Path
) -> None:
    address = publish(private, wheel(tmp_path / "intels", BINDINGS))
    planned = dataclasses.replace(BOUND, bindings_index=source_of(private, "user:secret").index)

    resolved = resolve.resolve_packages(planned, locks.context(store, squatted, os.environ))

    assert [artifact.version for artifact in resolved.artifacts] == ["2.4.0+cpu", "1.17.0"]
    assert resolved.artifacts[0].url == address


def test_bindings_that_their_own_index_lacks_are_not_taken_from_another(
    squatted: Sources, private: Server, store: Store
) -> None:
    private.login = None
    planned = dataclasses.replace(BOUND, bindings_index=f"{private.url}/simple")

    with pytest.raises(UserFault, match="oneccl-bind-pt was not found"):
        resolve.resolve_packages(planned, locks.context(store, squatted, os.environ))


def test_bindings_of_a_wheelhouse_need_no_index(squatted: Sources, store: Store, tmp_path: Path) -> None:
    path = wheel(tmp_path / "own", BINDINGS)
    planned = dataclasses.replace(BOUND, bindings_index="https://127.0.0.1:9/nobody/answers")

    resolved = resolve.resolve_packages(planned, locks.context(store, squatted, os.environ, str(path.parent)))

    assert resolved.artifacts[0].filename == path.name
    assert wheelhouse.is_file_of(str(path.parent), resolved.artifacts[0].url)


@pytest.mark.parametrize("algorithm", ["md5", "sha512"])
def test_a_wheel_of_an_index_without_sha256_is_refused(
    server: Server, store: Store, tmp_path: Path, algorithm: str
) -> None:
    path = tmp_path / f"served/{SIX}.whl"
    data, page = path.read_bytes(), server.pages["/simple/six/"].decode()
    sha256 = hashlib.sha256(data).hexdigest()
    other = page.replace(f"sha256={sha256}", f"{algorithm}={hashlib.new(algorithm, data).hexdigest()}")
    server.pages["/simple/six/"] = other.encode()
    context = locks.context(store, source_of(server), os.environ)

    with pytest.raises(UserFault, match=f"without its sha256.*{path.name} .it has {algorithm}"):
        resolve.resolve_packages(PINNED, context)

    six = locks.artifact("six", "1.17.0", path.name, sha256)
    assert collect.find_addresses(locks.lock(), [six], context) == {path.name: f"{server.url}/files/{path.name}"}


def test_a_wheelhouse_comes_before_an_index(index: Sources, store: Store, tmp_path: Path) -> None:
    context = locks.context(store, index, os.environ, str(folder_of(tmp_path)))

    resolved = resolve.resolve_packages(PLAN, context)

    assert {Path(artifact.url.removeprefix("file://")).parent for artifact in resolved.artifacts} == {
        tmp_path / "wheels"
    }


def test_a_rebuilt_wheel_of_the_same_name_size_and_time_is_seen(index: Sources, store: Store, tmp_path: Path) -> None:
    context = locks.context(store, index, os.environ, str(folder_of(tmp_path)))
    path = tmp_path / "wheels/six-1.17.0-py3-none-any.whl"
    old, time = path.read_bytes(), path.stat().st_mtime_ns

    digests = []
    for data in (old, old.replace(b"a module", b"a nodule").replace(_crc(b"a module"), _crc(b"a nodule"))):
        path.write_bytes(data)
        os.utime(path, ns=(time, time))
        resolved = resolve.resolve_packages(PLAN, context)
        digests += [artifact.sha256 for artifact in resolved.artifacts if artifact.name == "six"]
        assert digests[-1] == hashlib.sha256(data).hexdigest()

    assert len(set(digests)) == 2


@pytest.mark.parametrize(
    ("name", "data", "fact"),
    [
        ("six-1.17.0-py3-none-any.whl", b"PK\x03\x04 and nothing else", "uv failed"),
        ("six-1.17.0-py3-none-any.whl", OTHER, "uv failed"),
        ("transformers-5.23.0-cp310-cp310-linux_x86_64.whl", SAME, "another Python or system"),
    ],
)
def test_a_wheel_that_cannot_be_used_is_named_where_nothing_else_has_it(
    index: Sources, store: Store, tmp_path: Path, name: str, data: bytes, fact: str
) -> None:
    place = folder_of(tmp_path)
    good = next(place.glob(name.partition("-")[0] + "-*"))
    content = {SAME: good.read_bytes(), OTHER: good.read_bytes().replace(b"a module", b"a nodule")}.get(data, data)
    good.unlink()
    (place / name).write_bytes(content)
    nowhere = Sources(index=f"{index.index}/nothing")

    with pytest.raises(Fault, match=fact) as caught:
        resolve.resolve_packages(PLAN, locks.context(store, nowhere, os.environ, str(place)))

    assert name in caught.value.value
