"""What a command prints of a file that others wrote."""

from __future__ import annotations

import datetime
import fnmatch
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from images import cli, commands, pipeline
from images.check import import_check, provenance, verify
from images.check.verify import BILL, LOCK
from images.context import Access
from images.deliver import engine, registry, skopeo, transfer
from images.host.errors import WorldFault
from images.lock import bundle, lockfile
from images.oci.image import Image, write_layout
from images.oci.reference import Remote
from images.pipeline import Locked
from images.plan.plan import Plan
from images.platforms import AMD64, PLATFORMS, Platform
from images.store.store import Store
from tests.support import locks, stand_in
from tests.support.finished_images import EMPTY, SMALL, finished

# The files that are taken for SBOMs, by Syft 1 (syft/pkg/cataloger/sbom/cataloger.go) and as endings by Trivy
# (pkg/fanal/analyzer/sbom/sbom.go).
SCANNED = [f"*/{name}" for name in ("bom", "sbom", "*.syft.json")]
SCANNED += [f"*.{name}{rest}" for name in ("bom", "sbom", "cdx", "spdx") for rest in ("", ".*")]


@pytest.fixture
def world(tmp_path: Path) -> cli.World:
    return cli.World({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}, datetime.date(2026, 11, 20), lambda: 0.0)


def saved(path: Path, sbom: bytes, **others: bytes) -> str:
    """Write an archive of an image that has this SBOM, and these other files, as `docker save` does."""
    layer = stand_in.layer({BILL: sbom, **others} if sbom else others)
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + "0" * 64]}}
    image = [{"Config": "c.json", "Layers": ["l.tar"]}]
    files = {"c.json": json.dumps(config).encode(), "l.tar": layer, "manifest.json": json.dumps(image).encode()}
    return str(stand_in.write_tar(path, files))


@pytest.mark.parametrize("char", ["\x1b", "\r", "\x9b", "\u202e"])
def test_an_sbom_says_nothing_to_a_terminal(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str], char: str
) -> None:
    name = saved(tmp_path / "image.tar", f'{{\n"name": "{char}[2J"\n}}\n'.encode(), **{LOCK: b"a lock"})

    assert cli.main(["sbom", name], world) == 1

    told = capsys.readouterr()
    assert told.out == "" and "control characters" in told.err


@pytest.mark.parametrize("char", ["\x9b", "\u202e"])
def test_a_provenance_says_nothing_to_a_terminal(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str], char: str
) -> None:
    known = locks.lock(debs=[replace(locks.TINI, filename=f"{char}[2J.deb")])
    name = saved(tmp_path / "image.tar", b"", **{LOCK: lockfile.format_lock(known).encode()})

    assert cli.main(["provenance", name], world) != 0

    told = capsys.readouterr()
    assert told.out == "" and char not in told.err


def test_an_sbom_is_printed_as_it_is(world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps({"components": [{"name": "é"}]}, ensure_ascii=False, indent=1) + "\n"

    assert cli.main(["sbom", saved(tmp_path / "image", text.encode())], world) == 0

    assert capsys.readouterr().out == text


def test_a_provenance_is_of_the_lock_inside_and_of_the_image_that_is_named(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = locks.lock()
    place = tmp_path / "image.tar"
    name = saved(place, b"", **{LOCK: lockfile.format_lock(known).encode()})
    with verify.open_image(name, None, Store(tmp_path / "multinode"), Access(environ={})) as [inside]:
        digest = inside.digest

    assert cli.main(["provenance", name], world) == 0
    assert capsys.readouterr().out == provenance.write_statement(known, digest)


@pytest.mark.parametrize("command", ["sbom", "provenance"])
def test_of_an_index_the_platform_has_to_be_named(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    store, both = Store(tmp_path / "store"), tmp_path / "layout"
    write_layout(both, [finished(store, SMALL, platform=platform) for platform in PLATFORMS], store, "zstd")

    assert cli.main([command, str(both)], world) == 2
    assert "(linux/amd64, linux/arm64)" in capsys.readouterr().err
    assert cli.main([command, str(both), "--platform", "linux/arm64"], world) == 2
    assert "not made here" in capsys.readouterr().err


class Steps:
    """A build of which every step is done at once, but those of `steps`; it is typed by `build`."""

    def __init__(self, world: cli.World, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.world, self.place, self.patch = world, place, patch
        self.lock = lockfile.format_lock(locks.lock(), with_origin=True)
        self.finished = SimpleNamespace(image=EMPTY, lock=locks.lock(), sbom="{}")
        (place / "lock").write_text(self.lock)
        self.take(pipeline, "fetch_files", lambda *_: None)
        self.take(pipeline, "build_image", lambda *_: self.finished)
        self.take(commands, "_check_imports", lambda *_: None)
        self.take(skopeo, "require_skopeo", lambda *_: None)
        self.take(transfer, "push", lambda *_: None)
        self.take(registry, "attach", lambda *_: None)
        self.take(engine, "choose_engine", lambda *_, elsewhere: None if elsewhere else pytest.fail("kept nowhere"))

    def take(self, module: object, name: str, step: Callable[..., object]) -> None:
        """Take another step in the place of one."""
        self.patch.setattr(module, name, step)

    def build(self, *words: str) -> int:
        """Type the command, and return its exit code."""
        return cli.main(["build", "--offline", "--lock", str(self.place / "lock"), *words], self.world)


@pytest.fixture
def steps(world: cli.World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(world, tmp_path, monkeypatch)


def refusing(kind: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise WorldFault("refused", "host:1/a", "another", kind)

    return refuse


@pytest.mark.parametrize("native", [*PLATFORMS, None])
def test_an_engine_gets_the_image_of_this_machine(steps: Steps, tmp_path: Path, native: Platform | None) -> None:
    both = [finished(Store(tmp_path / "store"), SMALL, platform=platform) for platform in PLATFORMS]
    outcomes = iter([SimpleNamespace(image=image, lock=locks.lock(platform=image.platform)) for image in both])
    loaded = list[Image]()
    docker = SimpleNamespace(name="docker", load=lambda image, _: loaded.append(image))
    steps.take(Platform, "runs_on", lambda self, *_: self == native)
    steps.take(engine, "choose_engine", lambda *_, **__: docker)
    steps.take(commands, "make_locks", lambda *_: [SimpleNamespace(lock=locks.lock())] * 2)
    steps.take(pipeline, "build_image", lambda *_: next(outcomes))

    assert cli.main(["build", "--platform", "linux/amd64,linux/arm64"], steps.world) == (0 if native else 2)
    assert [image.platform for image in loaded] == ([native] if native else [])


@pytest.mark.parametrize(("kind", "code"), [("form", 0), ("denied", 0), ("otherwise", 1), ("busy", 1)])
def test_an_image_stays_pushed_where_its_registry_takes_no_documents(
    steps: Steps, capsys: pytest.CaptureFixture[str], kind: str, code: int
) -> None:
    steps.take(registry, "attach", refusing(kind))

    assert steps.build("--push", "host:1/a:1") == code
    err = capsys.readouterr().err
    assert f"pushed host:1/a:1@{steps.finished.image.digest}\n" in err
    assert ("note: host:1/a:1 has no SBOM and provenance attached: refused: host:1/a" in err) is (code == 0)


@pytest.mark.parametrize("glob", SCANNED)
def test_no_scanner_takes_the_sbom_for_what_is_installed(glob: str) -> None:
    assert not fnmatch.fnmatch(BILL, glob)


@pytest.mark.parametrize("option", ["--base", "--examples", "--wheelhouse"])
def test_verify_takes_what_messages_say_to_type(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert cli.main(["verify", option, "here", "archive:image.tar"], world) == 2
    assert "cannot read the archive: archive:image.tar" in capsys.readouterr().err


def test_a_push_that_is_done_is_said_where_the_next_one_fails(steps: Steps, capsys: pytest.CaptureFixture[str]) -> None:
    def push(_: object, target: Remote, *__: object) -> None:
        if target.host == "second:1":
            raise WorldFault("cannot push", target, "the network")

    steps.take(transfer, "push", push)

    assert steps.build("--json", "--push", "first:1/a:1", "--push", "second:1/a:1") == 1
    assert f"pushed first:1/a:1@{steps.finished.image.digest}\n" in capsys.readouterr().err


def test_an_archive_has_its_lock_where_its_import_check_is_interrupted(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "pylock.image-tar.toml").write_text("that of an earlier image")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    steps.take(transfer, "save_images", lambda *_: None)
    steps.take(commands, "_check_imports", interrupted)

    assert steps.build("--output", str(tmp_path / "image.tar")) == 130
    assert (tmp_path / "pylock.image-tar.toml").read_text() == steps.lock


def test_an_archive_is_written_where_the_engine_refuses_the_image(steps: Steps, tmp_path: Path) -> None:
    saved = list[Path]()
    steps.take(transfer, "save_images", lambda place, *_: saved.append(place.path))
    steps.take(engine, "choose_engine", lambda *_, **__: SimpleNamespace(name="podman", load=refusing("otherwise")))

    assert steps.build("--output", str(tmp_path / "image.tar")) == 1
    assert saved == [tmp_path / "image.tar"]


# What is said of an image that is loaded, and what lock, bundle and verify write.


@pytest.mark.parametrize(
    ("engine_there", "load", "native", "starts", "said", "checked"),
    [
        (True, None, True, True, "", True),
        (True, None, False, True, "", True),
        (True, None, False, False, "podman cannot start programs for linux/amd64 here", False),
        (True, None, False, None, "podman cannot start programs for linux/amd64 here", False),
        (False, None, True, True, "no engine has the image", False),
        (False, False, True, True, "", False),
    ],
)
def test_packages_are_imported_where_an_engine_can_start_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_there: bool, load: bool | None, native: bool,
    starts: bool | None, said: str, checked: bool,
) -> None:  # fmt: skip
    """starts: None where the engine fails."""

    def run(image: Image, command: list[str]) -> str | None:
        assert command == ["true"]
        if starts is None:
            raise WorldFault("no", "way", "at all")
        return None if starts else "exec format error"

    notes, asked = list[str](), list[object]()
    context = replace(locks.context(Store(tmp_path), None, {}), native=AMD64 if native else None)
    monkeypatch.setattr(context.progress, "say", notes.append)
    monkeypatch.setattr(import_check, "check_imports", lambda *given: asked.append(given[:2]))
    podman: Any = SimpleNamespace(name="podman", run=run) if engine_there else None
    result: Any = SimpleNamespace(image=EMPTY, wanted=("six",), lock=locks.lock(), wheels=(), left_out={})

    commands._check_imports(result, podman, load, context)

    assert asked == [(EMPTY, ("six",))] * checked
    assert [note.partition("skipped: ")[2].partition(";")[0] for note in notes if "skipped" in note] == [said] * bool(
        said
    )


@pytest.mark.parametrize("engine_there", [True, False])
def test_an_engine_gets_an_image_before_its_packages_are_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_there: bool
) -> None:
    done = list[object]()
    result: Any = SimpleNamespace(image=EMPTY, lock=locks.lock())
    docker: Any = SimpleNamespace(name="docker", load=lambda image, _: done.append(image)) if engine_there else None
    monkeypatch.setattr(commands, "_check_imports", lambda *given: done.append(given[:3]))

    commands._load([result], docker, None, replace(locks.context(Store(tmp_path), None, {}), native=None))

    assert done == [*[EMPTY] * engine_there, (result, docker, None)]


def test_a_lock_is_written_or_printed(steps: Steps, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, place = ["lock"], tmp_path / "new.toml"
    steps.take(commands, "make_locks", lambda *_: [Locked(locks.lock())])

    assert cli.main(given, steps.world) == 0
    assert capsys.readouterr().out == steps.lock
    assert cli.main([*given, "--output", str(place)], steps.world) == 0
    assert place.read_text() == steps.lock and capsys.readouterr().out == ""
    for wrong, code, fact in ((tmp_path, 2, "that is a directory"), (tmp_path / "no" / "a.toml", 2, "")):
        assert cli.main([*given, "--output", str(wrong)], steps.world) == code
        assert fact in capsys.readouterr().err


@pytest.mark.parametrize("json_too", [True, False])
def test_a_bundle_is_said_with_the_number_of_its_files(
    steps: Steps, tmp_path: Path, capsys: pytest.CaptureFixture[str], json_too: bool
) -> None:
    done, place = list[str](), tmp_path / "[a] bundle"
    steps.take(pipeline, "fetch_files", lambda *_: done.append("fetch"))

    def write(lock: object, store: object, output: str) -> Path:
        done.append(output)
        return place

    steps.take(bundle, "write_bundle", write)
    words = ["bundle", "--offline", "--lock", str(tmp_path / "lock"), "--output", str(place), *["--json"] * json_too]

    assert cli.main(words, steps.world) == 0
    assert done == ["fetch", str(place)]
    count, said = len(locks.lock().files()), capsys.readouterr()
    assert f"bundle         {place}  ({count} files)" in said.out + said.err
    assert not json_too or json.loads(said.out.splitlines()[0]) == {"bundle": str(place), "files": count}
    place.mkdir()
    (place / "there").touch()
    assert cli.main(words, steps.world) == 2 and done == ["fetch", str(place)]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["--offline"], "nothing can be resolved offline"),
        (["--lock", "none"], "there is no such lock"),
        (["--offline", "bundle", "--lock", "lock"], "a bundle brings its own lock"),
        (
            ["--lock", "lock", "--platform", "linux/amd64,linux/arm64", "--output", "a/"],
            "a lock is for one platform: --lock lock\n  try: --lock lock with one --platform",
        ),
        (
            ["--offline", "b", "--platform", "linux/amd64,linux/arm64", "--output", "a/"],
            "a lock is for one platform: --offline\n  try: --offline with one --platform",
        ),
        (["--platform", "linux/amd64,linux/arm64", "--output", "a.tar"], "an archive is for one platform"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_refused(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], fact: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)

    assert cli.main(["build", "--push", "host:1/a:1", *words], steps.world) == 2
    assert fact in capsys.readouterr().err


def test_images_of_one_index_are_resolved_each_for_its_platform(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = list[str]()

    def resolve(plan: Plan, *_: object) -> Locked:
        planned.append(str(plan.platform))
        return Locked(locks.lock(platform=plan.platform))

    images = {platform: finished(Store(tmp_path / "store"), SMALL, platform=platform) for platform in PLATFORMS}
    steps.take(pipeline, "resolve_plan", resolve)
    steps.take(pipeline, "build_image", lambda locked, *_: SimpleNamespace(
        image=images[locked.lock.platform], lock=locked.lock))  # fmt: skip
    saved = list[Path]()
    steps.take(transfer, "save_images", lambda place, images, *_: saved.append((place.path.name, len(images))))  # type: ignore[arg-type]
    both = "linux/amd64,linux/arm64"

    assert (
        cli.main(["build", "--torch", "2.10.0", "--platform", both, "--output", f"{tmp_path}/images/"], steps.world)
        == 0
    )
    assert planned == both.split(",") and saved == [("images", 2)]  # type: ignore[comparison-overlap]
    names = sorted(path.name for path in tmp_path.glob("pylock.*"))
    assert names == ["pylock.images-amd64.toml", "pylock.images-arm64.toml"]
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("for ")]
    assert lines == [f"for {one}:" for one in [*both.split(","), *both.split(",")]]


@pytest.mark.parametrize("difference", [None, verify.Difference("layer a", "etc/x", "1", "2")])
@pytest.mark.parametrize("remote", [None, Remote("host", "a", "1")])
@pytest.mark.parametrize("given", [True, False], ids=["a lock is named", "the lock inside"])
def test_an_image_is_verified_by_its_lock_and_by_what_is_attached(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    difference: verify.Difference | None, remote: Remote | None, given: bool,
) -> None:  # fmt: skip
    inside = verify.Inside("a:1", EMPTY.manifest, EMPTY.config, (), "podman", remote, ("sha256:0",))
    compared = list[object]()

    def compare(known: object, above: object, place: object, _: object) -> provenance.Attached:
        compared.append((above, place))
        return provenance.Attached({"sbom": "sha256:1", "provenance": None}, ["sha256:2 x"])

    steps.finished.image = EMPTY
    monkeypatch.setattr(verify, "open_image", lambda *_: nullcontext([inside]))
    monkeypatch.setattr(verify, "compare_images", lambda *_: difference)
    monkeypatch.setattr(verify.Inside, "file", lambda self, path: steps.lock.encode() if path == LOCK else b"")
    monkeypatch.setattr(provenance, "compare_attached", compare)
    monkeypatch.setattr(provenance, "write_documents", lambda *_: ())
    words = ["--offline", "--lock", str(tmp_path / "lock")] if given else []

    assert cli.main(["verify", "--json", *words, "a:1"], steps.world) == (1 if difference else 0)
    said = capsys.readouterr()
    fields = json.loads(said.out[: said.out.rindex("\n}") + 2])
    is_compared = bool(remote) and not difference
    assert compared == [(inside.indexes, remote)] * is_compared
    assert (fields["same"], fields["where"]) == (difference is None, "podman")
    assert fields["attached"] == ({"sbom": "sha256:1", "provenance": None} if is_compared else {})
    differs = (
        "the image is not what the lock says: a:1 (podman, linux/amd64): layer a, etc/x: 1 in the image, 2 rebuilt"
    )
    assert (differs in said.err) is bool(difference)


@pytest.mark.parametrize(("command", "code"), [("sbom", 0), ("provenance", 2), ("verify", 2)])
def test_bytes_that_are_no_text_end_in_no_traceback(
    world: cli.World, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, code: int
) -> None:
    odd = saved(tmp_path / "image.tar", b"\xff{}", **{LOCK: b"\xff"})

    assert cli.main([command, odd], world) == code
    said = capsys.readouterr()
    assert said.out == "\ufffd{}" if code == 0 else "that is not a lock of multinode" in said.err
