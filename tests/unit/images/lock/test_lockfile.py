"""The lock as a file: written, read back without the planner, and refused with every reason."""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from packaging.pylock import Pylock, is_valid_pylock_path

from images.base.base import BaseImage
from images.debian.deb import Deb
from images.host.errors import UserFault
from images.lock import lockfile
from images.lock.lock import Examples, Lock, UserPackages
from images.oci.manifest import Descriptor, Manifest
from images.plan.plan import Request
from images.plan.user_files import UserFile
from images.platforms import ARM64
from tests.support import locks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NOTHING = Request()
MODULE = "oneccl_bindings_for_pytorch"
BINDINGS = locks.artifact("oneccl-bind-pt", "2.4.0+cpu")


def part(letter: str) -> Descriptor:
    return Descriptor("application/octet-stream", f"sha256:{letter * 64}", 7)


IMAGE = Manifest(f"sha256:{'a' * 64}", part("b"), (part("c"), part("d")))


@pytest.fixture
def lock() -> Lock:
    return locks.lock(undated=("torch",), examples=Examples("examples.tar", "2" * 64))


@pytest.mark.parametrize(
    ("name", "version"), [("libstdc++6", "12.2.0-14+deb12u1"), ("7zip", "1:2.0~rc1+really1.0-3"), ("r-base.x", "0")]
)
def test_debians_names_and_versions_are_read_back(lock: Lock, name: str, version: str) -> None:
    debs = (Deb(name, version, "kfreebsd-amd64", "x.deb", "1" * 64),)
    written = replace(lock, debian=replace(lock.debian, debs=debs))

    assert lockfile.read_lock(lockfile.format_lock(written), "x", NOTHING).debian.debs == debs


def on_image(lock: Lock, name: str | None) -> Lock:
    """Put a lock on a base image, which has torch already."""
    return replace(lock, base=name or IMAGE.digest, base_image=BaseImage(IMAGE, ("torch",), name))


PEFT = UserPackages(("peft==1 --hash=sha256:" + "0" * 64, "protobuf<7 --constraint"), ("peft",))
FILES = (UserFile("run", "8" * 64, executable=True), UserFile("src/a.py", "9" * 64), UserFile("src/b", target="a.py"))
RUN, KEPT = f"sha256:{'8' * 64}", f"sha256:{'9' * 64}"
WITH_PEFT = (*locks.lock().artifacts, locks.artifact("peft", "1"))


def without_places(lock: Lock) -> Lock:
    return replace(lock, artifacts=tuple(replace(artifact, url="") for artifact in lock.artifacts))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"module": MODULE, "backend": "ccl", "artifacts": (*locks.lock().artifacts, BINDINGS)},
        {"platform": ARM64, "twin": (locks.TINI,)},
        {"user_packages": PEFT, "artifacts": WITH_PEFT},
        {"user_files": FILES},
    ],
)
def test_what_is_written_is_read_back(lock: Lock, changes: dict[str, Any]) -> None:
    written = replace(lock, **changes)

    assert lockfile.read_lock(lockfile.format_lock(written, with_origin=True), "x", NOTHING) == without_places(written)


def test_other_tools_read_the_packages(lock: Lock) -> None:
    pylock = Pylock.from_dict(tomllib.loads(lockfile.format_lock(lock)))

    assert [(package.name, str(package.version)) for package in pylock.packages] == [
        ("torch", "2.13.0+cpu"),
        ("transformers", "5.23.0"),
    ]
    assert str(pylock.requires_python) == "==3.11.*"


ADDRESS = "https://host/a/torch-2.13.0%2Bcpu-py3-none-any.whl"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (ADDRESS, ADDRESS),
        (ADDRESS.replace("//", "//me:secret@"), ADDRESS),
        (ADDRESS.replace("//", "//secret@"), ADDRESS),
        (f"{ADDRESS}?X-Amz-Signature=secret#sha256=0", ADDRESS),
        ("http://[::1]:8080/a.whl", "http://[::1]:8080/a.whl"),
        ("file:///secret/place.whl", ""),
        ("/secret/place.whl", ""),
        ("", ""),
    ],
)
def test_a_file_is_named_by_its_address_for_everybody(lock: Lock, url: str, kept: str) -> None:
    torch, other = lock.artifacts
    written = replace(lock, artifacts=(replace(torch, url=url), other), indexes=("https://host/simple",))
    text = lockfile.format_lock(written, with_origin=True)
    [wheel] = Pylock.from_dict(tomllib.loads(text)).packages[0].wheels or ()

    assert (wheel.url, wheel.path) == ((kept, None) if kept else (None, f"wheels/{torch.filename}"))
    assert "secret" not in text
    read = lockfile.read_lock(text, "x", NOTHING)
    assert (read.artifacts[0].url, read.indexes) == (kept, ("https://host/simple",))
    assert lockfile.format_lock(read, with_origin=True) == text


def test_a_lock_in_an_image_and_in_a_bundle_has_no_address(lock: Lock) -> None:
    torch, other = lock.artifacts
    written = replace(lock, artifacts=(replace(torch, url=ADDRESS), other), indexes=("https://host/simple",))

    assert "host" not in lockfile.format_lock(written)
    assert lockfile.format_lock(written) == lockfile.format_lock(lockfile.without_addresses(written))
    assert ADDRESS not in lockfile.format_lock(lockfile.without_addresses(written), with_origin=True)


@pytest.mark.parametrize(
    ("image", "name"),
    [("image.tar", "pylock.image-tar.toml"), ("layout", "pylock.layout.toml"), ("a b.c.tar", "pylock.a-b-c-tar.toml")],
)
def test_the_name_beside_an_image_is_one_that_tools_know(image: str, name: str) -> None:
    path = lockfile.path_for(Path("there") / image)

    assert path == Path("there") / name
    assert is_valid_pylock_path(path)


@pytest.mark.parametrize(("base", "name"), [("oci:/secret/place", None), ("host:5000/a/b:1", "host:5000/a/b:1")])
def test_a_base_image_is_locked_by_its_digests_and_no_place(lock: Lock, base: str, name: str | None) -> None:
    text = lockfile.format_lock(on_image(lock, name))

    read = lockfile.read_lock(text, "x", replace(NOTHING, base=base))

    assert lockfile.format_lock(read) == text and "secret" not in text
    assert [artifact.name for artifact in read.added] == ["transformers"]
    assert read.base_image == BaseImage(IMAGE, ("torch",), name)


def test_a_lock_names_no_place_and_inside_an_image_no_kind_of_place(lock: Lock) -> None:
    assert "secret" not in lockfile.format_lock(lock, with_origin=True)
    assert "undated" in lockfile.format_lock(lock, with_origin=True)
    assert "undated" not in lockfile.format_lock(lock)


def test_a_lock_that_an_editor_saved_with_a_byte_order_mark_is_read(lock: Lock) -> None:
    saved = "\ufeff" + lockfile.format_lock(lock).replace("\n", "\r\n")

    assert lockfile.format_lock(lockfile.read_lock(saved, "x", NOTHING)) == lockfile.format_lock(lock)


def changed(lock: Lock, path: str, value: object) -> str:
    """Write a lock with one value set to another, or removed by None."""
    raw = lockfile.lock_fields(lock)
    *above, last = path.split("/")
    table: Any = raw
    for name in above:
        table = table[int(name) if isinstance(table, list) else name]
    if value is None:
        del table[last]
    else:
        table[int(last) if isinstance(table, list) else last] = value
    return tomli_w.dumps(raw)


OURS = "tool/multinode"
DEEP: list[object] = []
for _ in range(99):
    DEEP = [DEEP]
WHEEL = {"name": "torch-2.13.0+cpu-py3-none-any.whl", "path": "x", "hashes": {"sha256": "0" * 64}}


def at(url: str) -> list[dict[str, Any]]:
    """Return the wheels of a package whose one is at an address."""
    return [{**{name: value for name, value in WHEEL.items() if name != "path"}, "url": url}]


@pytest.mark.parametrize(
    ("path", "value", "fact", "said"),
    [
        ("tool", None, "not a lock of multinode", "tool"),
        ("tool/other", DEEP, "not a lock", "nested too deep"),
        (f"{OURS}/format", 99, "another format", "99"),
        (f"{OURS}/machine", "riscv64", "another kind of machine", "riscv64"),
        (f"{OURS}/tools", {}, "does not fit", "zstandard"),
        (f"{OURS}/tools/installer", "0.7.0", "does not fit", "installer"),
        (f"{OURS}/debian", None, "damaged", "debian"),
        (f"{OURS}/debian/debs/0/sha256", "../../x", "damaged", "../../x"),
        (f"{OURS}/debian/debs/0/filename", "../../x", "damaged", "../../x"),
        (f"{OURS}/debian/debs/0/filename", "/etc/passwd", "damaged", "/etc/passwd"),
        (f"{OURS}/debian/debs/0/package", "-oAcquire::http::Proxy-Auto-Detect=/tmp/x", "damaged", "debs.0.package"),
        (f"{OURS}/debian/debs/0/version", "--allow-downgrades", "damaged", "debs.0.version"),
        (f"{OURS}/debian/debs/0/architecture", "-x", "damaged", "debs.0.architecture"),
        (f"{OURS}/as-of", "yesterday", "damaged", "as_of"),
        (f"{OURS}/trim", "yes", "damaged", "trim"),
        (f"{OURS}/bytecode", 1, "damaged", "bytecode"),
        (f"{OURS}/trim", None, "damaged", "trim: None is nothing that build.py writes"),
        (f"{OURS}/env", "A=1", "damaged", "env"),
        (f"{OURS}/env", ["A=1\n"], "damaged", "env"),
        (f"{OURS}/env", ["PATH=/tmp"], "damaged", "sets that variable itself"),
        (f"{OURS}/env", ["B=1", "A=1"], "damaged", "env: ['B=1', 'A=1'] is nothing that build.py writes"),
        (f"{OURS}/no-import", ["peft", "six"], "damaged", "no-import: peft, six, which is not in it"),
        (f"{OURS}/no-import", [1], "damaged", "no_import"),
        (f"{OURS}/no-import", ["Torch"], "damaged", "no-import: ['Torch'] is nothing"),
        (f"{OURS}/strip", True, "keys that this release of multinode does not know", "strip"),
        (f"{OURS}/artifacts", [], "does not know", "artifacts"),
        (f"{OURS}/backend", "mpi", "damaged", "backend"),
        (f"{OURS}/backend", "ccl", "damaged", "backend ccl without oneccl-bind-pt"),
        (f"{OURS}/python", None, "damaged", "python"),
        (f"{OURS}/base", "intel", "damaged", "base intel without the digests"),
        (f"{OURS}/debian/suite", "--setup-hook=touch /tmp/x", "damaged", "debian.suite"),
        (f"{OURS}/debian/packages", ["-oAPT::Update::Pre-Invoke::=touch /tmp/x"], "damaged", "debian.packages"),
        (f"{OURS}/python", "3.11/../../../tmp/x", "damaged", "python"),
        (f"{OURS}/python", "3.11\n", "damaged", "python"),
        (f"{OURS}/glibc", "two", "damaged", "glibc"),
        (f"{OURS}/module", "../x", "damaged", "module"),
        (f"{OURS}/index", "--index-url=http://evil", "damaged", "index"),
        (f"{OURS}/find-links", "--find-links=/", "damaged", "find_links"),
        (f"{OURS}/torch", "2.13.0\n--index-url http://evil", "damaged", "torch"),
        (f"{OURS}/source-only", [{"name": 'a"\n[pip]', "version": "1", "requires": []}], "damaged", "source_only"),
        (f"{OURS}/user-packages", {"requirements": ["a b"], "names": []}, "damaged", "a b"),
        (f"{OURS}/user-packages", {"requirements": ["a --pre"], "names": []}, "damaged", "a --pre"),
        (f"{OURS}/user-packages", {"requirements": [], "names": ["peft"]}, "damaged", "peft, which is not in it"),
        (f"{OURS}/user-files", [{"path": "../x", "sha256": "0" * 64}], "damaged", "leaves its directory"),
        (f"{OURS}/user-files", [{"path": "x", "sha256": "../x"}], "damaged", "../x"),
        (f"{OURS}/user-files", [{"path": "x", "sha256": "0" * 64, "mode": 4}], "does not know", "user-files.0.mode"),
        (f"{OURS}/torch", "2.12.0", "damaged", "torch 2.12.0 with the file of torch 2.13.0"),
        (f"{OURS}/transformers", "5..1", "damaged", "5..1"),
        ("packages", [], "damaged", "torch"),
        ("packages/0/wheels/0/hashes/sha256", "00", "damaged", "'00'"),
        ("packages/0/version", None, "damaged", "torch has not one version and one file"),
        ("packages/0/wheels", [], "damaged", "packages"),
        ("packages/0/wheels", [WHEEL, WHEEL], "damaged", "torch has not one version and one file"),
        ("packages/0/wheels", at("file:///etc/passwd"), "damaged", "file:///etc/passwd"),
        ("packages/0/wheels", at("https://me@host/a"), "damaged", "torch with the address"),
        ("packages/0/wheels", at("https://host/a b"), "damaged", "torch with the address"),
        ("packages/0/wheels", at("https://host/a\n"), "damaged", "torch with the address"),
        ("packages/0/name", "../x", "damaged", "packages"),
        ("lock-version", "7.0", "damaged", "7"),
    ],
)
def test_what_does_not_fit_is_named(lock: Lock, path: str, value: object, fact: str, said: str) -> None:
    with pytest.raises(UserFault) as caught:
        lockfile.read_lock(changed(lock, path, value), "my.lock", NOTHING)

    assert fact in caught.value.fact
    assert said in caught.value.value
    assert "my.lock" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"module": MODULE}, "backend gloo with oneccl-bind-pt"),
        ({"backend": "ccl"}, "backend ccl without the module of oneccl-bind-pt"),
        ({"artifacts": (BINDINGS,)}, "no torch and no transformers in it"),
        (
            {"artifacts": (*locks.lock().artifacts, locks.artifact("a", "1", "a-1.tar.gz"))},
            "a-1.tar.gz, which is no wheel, and no row of source-only for it",
        ),
        ({"twin": (locks.TINI,)}, "a twin of a Python that needs none"),
    ],
)
def test_packages_that_make_no_sense_are_damage(lock: Lock, changes: dict[str, Any], said: str) -> None:
    text = lockfile.format_lock(replace(lock, **{"artifacts": (*lock.artifacts, BINDINGS), **changes}))

    with pytest.raises(UserFault, match="the lock is damaged") as caught:
        lockfile.read_lock(text, "my.lock", NOTHING)

    assert caught.value.value == f"my.lock: {said}"


@pytest.mark.parametrize("digest", ["sha256:../../x", "", 3])
@pytest.mark.parametrize("path", ["digest", "config/digest", "layers/1/digest"])
def test_a_base_image_with_odd_digests_is_damage(lock: Lock, path: str, digest: object) -> None:
    text = changed(on_image(lock, "host:5000/a/b:1"), f"{OURS}/base-image/manifest/{path}", digest)

    with pytest.raises(UserFault, match="damaged"):
        lockfile.read_lock(text, "x", NOTHING)


ON_IMAGE = on_image(locks.lock(), "host:5000/a/b:1")
WITH_EXAMPLES = locks.lock(examples=Examples("examples.tar", "2" * 64))


@pytest.mark.parametrize(
    ("locked", "asked", "said"),
    [
        (ON_IMAGE, Request(base="debian"), "--base debian, but the lock has host:5000/a/b:1"),
        (ON_IMAGE, Request(base="host:5000/a/b:2"), "--base host:5000/a/b:2, but the lock has host:5000/a/b:1"),
        (locks.lock(), Request(content={"trim": False}), "--no-trim, but the lock was made with --trim"),
        (locks.lock(), Request(content={"env": ("A=1", "B=2")}), "--env A=1, B=2, but the lock has none"),
        (locks.lock(env=("A=1",)), Request(content={"env": ("A=2",)}), "--env A=2, but the lock has A=1"),
        (
            locks.lock(),
            Request(user_packages=("peft==2", "trl==1")),
            "--requirements or --package: peft==2; trl==1, but the lock has none",
        ),
        (
            locks.lock(WITH_PEFT, user_packages=PEFT),
            Request(user_packages=("peft==2",)),
            f"--requirements or --package: peft==2, but the lock has {'; '.join(PEFT.requirements)}",
        ),
        (locks.lock(), Request(platform=ARM64), "--platform linux/arm64, but the lock is for x86_64"),
        (WITH_EXAMPLES, Request(examples="none"), "--examples none, but the lock has some"),
        (
            locks.lock(),
            Request(torch="2.12.0", transformers="5.22.2", tasks=("translation",), as_of="2026-11-20"),
            "--torch 2.12.0, but the lock has 2.13.0; --transformers 5.22.2, but the lock has 5.23.0; --tasks "
            "translation, but a lock has its packages already; --as-of 2026-11-20, but the lock has 2026-01-01",
        ),
    ],
)
def test_every_option_that_a_lock_differs_from_is_named(locked: Lock, asked: Request, said: str) -> None:
    with pytest.raises(UserFault, match=r"my\.lock does not fit") as caught:
        lockfile.read_lock(lockfile.format_lock(locked), "my.lock", asked)

    assert caught.value.value == said


@pytest.mark.parametrize(
    ("locked", "asked", "said"),
    [
        (
            FILES,
            (replace(FILES[1], sha256="a" * 64), *FILES[::2]),
            f"src/a.py: sha256:{'a' * 64} here, {KEPT} in the lock",
        ),
        (FILES, (replace(FILES[0], executable=False), *FILES[1:]), f"run: {RUN} here, {RUN}, a program in the lock"),
        (FILES, FILES[:1], f"src/a.py: none here, {KEPT} in the lock; src/b: none here, a link to a.py in the lock"),
        (None, FILES[:1], f"run: {RUN}, a program here, none in the lock"),
    ],
)
def test_every_file_that_a_lock_differs_from_is_named(
    lock: Lock, locked: tuple[UserFile, ...] | None, asked: tuple[UserFile, ...], said: str
) -> None:
    text, request = (
        lockfile.format_lock(replace(lock, user_files=locked)),
        Request(user_files=dict.fromkeys(asked, Path())),
    )

    with pytest.raises(UserFault, match=r"my\.lock is for other files") as caught:
        lockfile.read_lock(text, "my.lock", request)

    assert caught.value.value == said
    same = lockfile.read_lock(lockfile.format_lock(replace(lock, user_files=asked)), "x", request)
    assert same.user_files == asked


@pytest.mark.parametrize(("name", "version"), [("nvidia-cublas", "13.1"), ("triton", "3.4"), ("torch", "2.13.0+cu130")])
def test_a_lock_for_a_gpu_is_refused(lock: Lock, name: str, version: str) -> None:
    others = [artifact for artifact in lock.artifacts if artifact.name != name]
    text = lockfile.format_lock(replace(lock, artifacts=(*others, locks.artifact(name, version))))

    with pytest.raises(UserFault, match="for a GPU") as caught:
        lockfile.read_lock(text, "my.lock", NOTHING)
    assert caught.value.value == f"my.lock: {name} {version}"


@pytest.mark.parametrize("part", ["x", '"x.\\""', "'x.'"])
@pytest.mark.parametrize("line", ["{}=1", "[{}]", "y = {{ {}=1 }}", "{} . x = 1"])
def test_many_keys_in_a_row_take_no_memory(part: str, line: str) -> None:
    text = line.format(".".join([part] * 20_000))
    tracemalloc.start()
    try:
        with pytest.raises(UserFault, match="nested too deep"):
            lockfile.read_lock(text, "x", NOTHING)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


LEAVE, INSTALL, AGAIN = "leave those options out", "pip install -e .", "or make a new lock: build.py lock"


@pytest.mark.parametrize(
    ("asked", "tools", "steps"),
    [
        (Request(torch="2.12.0"), None, [LEAVE, AGAIN]),
        (NOTHING, {}, [INSTALL, AGAIN]),
        (Request(torch="2.12.0"), {}, [LEAVE, INSTALL, AGAIN]),
    ],
)
def test_what_helps_where_a_lock_does_not_fit_is_said(lock: Lock, asked: Request, tools: Any, steps: list[str]) -> None:
    raw = tomllib.loads(lockfile.format_lock(lock))
    raw["tool"]["multinode"]["tools"] = raw["tool"]["multinode"]["tools"] if tools is None else tools

    with pytest.raises(UserFault, match="does not fit") as caught:
        lockfile.read_lock(tomli_w.dumps(raw), "x", asked)

    assert [step.partition(" (")[0] for step in caught.value.remedy.split(", ")] == steps
