"""What of a lock is fetched from where, what is refused before anything is, and which base is read out of an image."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from images import pipeline
from images.base import additions, debian, pulled
from images.base.base import Base, BaseImage
from images.base.pulled import pull_image
from images.check import import_check
from images.compiling import compiler
from images.context import Context
from images.debian import packages
from images.debian.deb import Debian
from images.host.errors import Damaged, UserFault, WorldFault
from images.layers import assemble, entrypoint_layer, examples, on_base, trim
from images.lock import resolve
from images.lock.lock import EXAMPLES, Examples, Lock, UserPackages
from images.lock.resolve import Resolved
from images.oci import reference
from images.pip_config import Sources
from images.pipeline import Locked
from images.plan import catalog, planner
from images.plan.plan import Request
from images.platforms import AMD64
from images.store.blobs import sha256
from images.store.store import Store
from tests.golden.command import NO_ENGINE
from tests.support import locks
from tests.support.bases import DIGEST, MANIFEST, base
from tests.support.stand_in import SYSTEM, Image, layout, write
from tests.support.wheels import pack


def context(directory: Path, **changes: object) -> Context:
    """Have a store in a directory, and nothing to download from."""
    return replace(locks.context(Store(directory / "store"), None, NO_ENGINE), **changes)  # type: ignore[arg-type]


def lock_of(files: Sequence[Path], store: Store) -> Lock:
    """Lock wheels, which are put into a store."""
    digests = [sha256(path) for path in files]
    artifacts = [locks.artifact("thing", "1.0", path.name, digest) for path, digest in zip(files, digests, strict=True)]
    for path, digest in zip(files, digests, strict=True):
        store.keep(path, digest, path.name)
    return locks.lock(artifacts, debs=())


@pytest.fixture
def locked(tmp_path: Path) -> Lock:
    """Lock an image on the base in the directory `layout`, whose wheel is in the store already."""
    write(tmp_path / "layout", layout({"1": Image([SYSTEM])}))
    write(tmp_path / "other", layout({"1": Image([{"etc/hostname": b"other\n"}])}))
    at_hand = context(tmp_path)
    aside = Store(tmp_path / "aside")
    pulled = pull_image(
        reference.parse_reference(f"oci:{tmp_path}/layout"), AMD64, aside, at_hand.access, lambda _: None
    )
    lock = lock_of([pack(tmp_path, {"thing/__init__.py": b""})], at_hand.store)
    return replace(lock, base_image=BaseImage(pulled.manifest, ()))


def test_the_base_of_a_lock_comes_from_where_the_user_says(tmp_path: Path, locked: Lock) -> None:
    at_hand = context(tmp_path, base=f"oci:{tmp_path}/layout")

    pipeline.fetch_files(locked, at_hand)

    assert all(at_hand.store.verified(digest, name) for digest, name in locked.files())


def test_another_base_than_that_of_the_lock_is_refused(tmp_path: Path, locked: Lock) -> None:
    with pytest.raises(UserFault, match="that is not the base of the lock") as caught:
        pipeline.fetch_files(locked, context(tmp_path, base=f"oci:{tmp_path}/other"))

    assert locked.base_image
    other = Image([{"etc/hostname": b"other\n"}]).digest
    assert caught.value.value == f"oci:{tmp_path}/other ({other}, not {locked.base_image.manifest.digest})"
    assert caught.value.remedy == "the base that the lock was made with"


def test_a_base_that_nobody_names_is_missed_with_its_digest(tmp_path: Path, locked: Lock) -> None:
    assert locked.base_image
    named = replace(locked, base_image=replace(locked.base_image, reference="localhost:1/a:1"))

    with pytest.raises(
        WorldFault, match=f"parts of the base are missing: .*{locked.base_image.manifest.config.digest}"
    ):
        pipeline.fetch_files(named, context(tmp_path))


def test_a_layer_of_a_base_that_was_damaged_and_removed_is_fetched_again(tmp_path: Path, locked: Lock) -> None:
    at_hand = context(tmp_path, base=f"oci:{tmp_path}/layout")
    pipeline.fetch_files(locked, at_hand)
    assert locked.base_image
    layer = at_hand.store.place(locked.base_image.manifest.layers[0].sha256)
    layer.write_bytes(b"damaged")

    pipeline.fetch_files(locked, at_hand)

    assert at_hand.store.verified(layer.parent.name, layer.name)


def with_examples(directory: Path, text: bytes) -> Path:
    write(directory, {"examples/pytorch/translation/run.py": text, "README.md": b"read"})
    return directory


@pytest.fixture
def taught(tmp_path: Path) -> Lock:
    """Lock the examples in the directory `examples`."""
    aside = replace(context(tmp_path), store=Store(tmp_path / "aside"))
    place = str(with_examples(tmp_path / "examples", b"pass"))
    taken = examples.fetch_examples(aside.store, place, aside.sources, lambda _: None)
    assert taken
    lock = lock_of([pack(tmp_path, {"thing/__init__.py": b""})], context(tmp_path).store)
    return replace(lock, examples=Examples(taken[1].name, taken[0]))


def test_the_examples_of_a_lock_come_from_where_the_user_says(tmp_path: Path, taught: Lock) -> None:
    at_hand = context(tmp_path, examples=str(tmp_path / "examples"))

    pipeline.fetch_files(taught, at_hand)

    assert taught.examples and at_hand.store.verified(taught.examples.sha256, taught.examples.filename)


def test_other_examples_than_those_of_the_lock_are_refused(tmp_path: Path, taught: Lock) -> None:
    place = with_examples(tmp_path / "edited", b"print()")

    with pytest.raises(UserFault, match="those are not the examples of the lock") as caught:
        pipeline.fetch_files(taught, context(tmp_path, examples=str(place)))

    assert taught.examples
    assert caught.value.value.startswith(f"{place}: sha256 ")
    assert caught.value.value.endswith(f", not {taught.examples.sha256}")
    assert caught.value.remedy.startswith("--examples with the archive or directory that the lock was made with")


def test_offline_missing_examples_are_named_with_the_missing_packages(tmp_path: Path, taught: Lock) -> None:
    both = replace(taught, artifacts=(*taught.artifacts, locks.artifact("other", "1.0")))

    with pytest.raises(WorldFault) as caught:
        pipeline.fetch_files(both, context(tmp_path))

    assert taught.examples and taught.examples.filename in caught.value.value
    assert "other-1.0" in caught.value.value


REFUSAL = "nothing here may run the Python of the base"


def test_a_pulled_base_does_not_compile_without_an_engine_and_is_not_fetched(tmp_path: Path, locked: Lock) -> None:
    with pytest.raises(WorldFault, match=REFUSAL) as caught:
        pipeline.fetch_files(replace(locked, bytecode=True), context(tmp_path, compiles=True))

    assert "--no-bytecode" in caught.value.remedy
    with pytest.raises(WorldFault, match="parts of the base are missing"):  # where nothing is compiled, it goes on
        pipeline.fetch_files(replace(locked, bytecode=True), context(tmp_path))


def test_a_plan_on_a_base_is_refused_before_the_base_is_looked_for(tmp_path: Path) -> None:
    asked = Request(torch="2.4.0", transformers="4.46.3", base=f"oci:{tmp_path}/no", python="3.10")
    planned = planner.make_plan(asked, catalog.load())

    with pytest.raises(WorldFault, match=REFUSAL):
        pipeline.resolve_plan(planned, context(tmp_path, compiles=True))
    with pytest.raises(UserFault, match="that is not an OCI layout"):
        pipeline.resolve_plan(replace(planned, bytecode=False), context(tmp_path, compiles=True))


@pytest.mark.parametrize(("fault", "is_made"), [(Damaged("tini.deb"), True), (WorldFault("no room", "x", "y"), False)])
def test_a_base_of_a_package_that_was_damaged_is_made_when_that_is_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: WorldFault, is_made: bool
) -> None:
    """The first attempt was made beside the choice of Python packages, and fails for ever."""
    good, failed = base(SYSTEM, is_debian=True), Future[Base]()
    failed.set_exception(fault)
    monkeypatch.setattr(debian, "make_base", lambda *_: good)
    begun = Locked(locks.lock(debs=()), making=failed)

    if is_made:
        assert pipeline._debian_base(begun, context(tmp_path)) is good
    else:
        with pytest.raises(WorldFault, match="no room"):
            pipeline._debian_base(begun, context(tmp_path))


# A lock is made of what was planned and chosen.

CHOSEN = Resolved(
    (locks.artifact("torch", "2.13.0+cpu"), locks.artifact("six", "1.0")),
    ("six",),
    ("a note",),
    indexes=("https://one",),
)
RECIPE = Debian("bookworm", ("tini",), "", (locks.TINI,))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let each step of a lock be done at once, and say so."""
    done = list[str]()

    def take(module: object, name: str, value: object) -> None:
        def step(*_: object) -> object:
            done.append(name)
            return value

        monkeypatch.setattr(module, name, step)

    take(compiler, "require_compiler", None)
    take(entrypoint_layer, "keep_user_files", None)
    take(resolve, "resolve_with_users", (CHOSEN, UserPackages(("six",), ("six",))))
    take(resolve, "choose_debs", (lambda: done.append("wait") or RECIPE, "making"))  # type: ignore[func-returns-value]
    take(resolve, "choose_twin", (locks.TINI,))
    take(import_check, "require_excused", None)
    take(packages, "resolve_single", (locks.TINI,))
    take(additions, "read_pieces", None)
    take(examples, "fetch_examples", ("e" * 64, Path("examples")))
    take(pipeline, "pull_image", None)
    return done


@pytest.mark.parametrize("with_examples", [True, False])
def test_a_plan_on_debian_becomes_a_lock(
    tmp_path: Path, steps: list[str], capsys: pytest.CaptureFixture[str], with_examples: bool
) -> None:
    planned = planner.make_plan(Request(), catalog.load())
    planned = replace(planned, examples="https://a" if with_examples else None)

    locked = pipeline.resolve_plan(planned, context(tmp_path))

    lock = locked.lock
    assert (lock.artifacts, lock.undated, lock.indexes) == (CHOSEN.artifacts, CHOSEN.undated, CHOSEN.indexes)
    assert (lock.debian, lock.twin, lock.base_image, lock.base) == (RECIPE, (locks.TINI,), None, planned.base)
    assert lock.examples == (Examples(EXAMPLES, "e" * 64) if with_examples else None)
    assert (lock.user_packages, lock.user_files) == (UserPackages(("six",), ("six",)), None)
    assert {name: getattr(lock, name) for name in ("torch", "python", "trim", "platform")} == {
        name: getattr(planned, name) for name in ("torch", "python", "trim", "platform")
    }
    assert locked.making == "making"  # type: ignore[comparison-overlap]
    assert steps == [
        "require_compiler", "keep_user_files", "choose_debs", "resolve_with_users", "require_excused", "wait",
        "choose_twin", *["fetch_examples"] * with_examples,
    ]  # fmt: skip


@pytest.mark.parametrize("lacks", [["tini"], []])
@pytest.mark.parametrize("sshd", ["usr/sbin/sshd", None])
@pytest.mark.parametrize(
    ("typed", "name", "locked_as"),
    [("intel", "host/intel:1", "intel"), ("host/a:1", "host/a:1", "host/a:1"), ("oci:dir", None, DIGEST)],
)
def test_a_plan_on_a_pulled_base_becomes_a_lock(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch, lacks: list[str], sshd: str | None, typed: str,
    name: str | None, locked_as: str,
) -> None:  # fmt: skip
    """It takes what the base has, and single packages of Debian for what it lacks."""
    said, below = list[str](), base(SYSTEM)
    below = replace(below, name=name, facts=replace(below.facts, sshd=sshd))
    at_hand = context(tmp_path)
    monkeypatch.setattr(at_hand.progress, "say", said.append)
    monkeypatch.setattr(pulled, "read_base", lambda *_: below)
    monkeypatch.setattr(additions, "list_missing_pieces", lambda _: lacks)
    monkeypatch.setattr(on_base, "compare_packages", lambda *_: SimpleNamespace(kept=("six",)))
    asked = Request(torch="2.4.0", transformers="4.46.3", base="host/a:1", python="3.10")
    planned = replace(planner.make_plan(asked, catalog.load()), base=typed, bytecode=False, examples=None)

    locked = pipeline.resolve_plan(planned, at_hand)

    lock = locked.lock
    assert (lock.twin, lock.base, locked.making) == (None, locked_as, None)
    assert lock.base_image == BaseImage(MANIFEST, ("six",), name)
    assert lock.debian == Debian(planned.suite, planned.packages, "", (locks.TINI,) * bool(lacks))
    single = ["resolve_single", "read_pieces"] * bool(lacks)
    assert steps == [
        "require_compiler",
        "keep_user_files",
        "pull_image",
        *single,
        "resolve_with_users",
        "require_excused",
    ]
    sshd_note = "note: the base has no sshd: mpirun cannot start ranks on other hosts, torchrun can"
    assert [line for line in said if line.startswith("note")] == [*[sshd_note] * (not sshd), "note: a note"]


@pytest.mark.parametrize(
    ("making", "native", "compiles"),
    [("running", True, True), ("done", True, False), (None, True, False), ("running", False, False)],
)
def test_wheels_are_compiled_as_long_as_debians_base_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, making: str | None, native: bool, compiles: bool
) -> None:
    done = list[object]()
    future = Future[Base]()
    if making == "done":
        future.set_result(base(SYSTEM, is_debian=True))
    monkeypatch.setattr(compiler, "choose_compiler", lambda *_: compiler.Choice(None if native else object()))  # type: ignore[arg-type]
    monkeypatch.setattr(compiler, "unpack_debian", lambda *_: "python")
    monkeypatch.setattr(trim, "choose_left_out", lambda *_: {})
    monkeypatch.setattr(trim, "uncompiled_patterns", lambda *_: "omitted")
    monkeypatch.setattr(assemble, "compile_beside", lambda *given: done.append(given[:4]))

    def make(*_: object) -> Base:
        raise WorldFault("here", "it ends", "")

    monkeypatch.setattr(pipeline, "_make_base", make)
    files = pipeline.LockFiles((), None, None)
    with pytest.raises(WorldFault, match="here"):
        pipeline.build_image(Locked(locks.lock(), future if making else None), files, ("a",), context(tmp_path))

    assert done == [(future, "python", (), "omitted")] * compiles


@pytest.mark.parametrize(("in_store", "attempts"), [(True, 0), (False, 1)])
def test_a_base_that_was_made_beside_is_made_again_where_the_store_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_store: bool, attempts: int
) -> None:
    first, again, asked = base(SYSTEM, is_debian=True), base(SYSTEM, is_debian=True), list[object]()
    future = Future[Base]()
    future.set_result(first)

    def make(*given: object) -> Base:
        asked.append(given)
        return again

    monkeypatch.setattr(debian, "make_base", make)
    monkeypatch.setattr(Base, "is_in", lambda *_: in_store)

    for making, count in ((future, attempts), (None, 1)):
        asked.clear()
        result = pipeline._make_base(
            Locked(locks.lock(), making), pipeline.LockFiles((), None, None), context(tmp_path)
        )
        assert result is (again if count else first) and len(asked) == count


@pytest.mark.parametrize(
    ("pip", "place", "named"),
    [(Sources(), None, "v5.23.0"), (None, "mine", "mine"), (None, None, None)],
)
def test_examples_come_from_the_release_unless_the_user_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taught: Lock, pip: Sources | None, place: str | None,
    named: str | None,
) -> None:  # fmt: skip
    asked = list[str]()
    assert taught.examples
    digest = taught.examples.sha256
    monkeypatch.setattr(examples, "fetch_examples", lambda _, place, *__: asked.append(place) or (digest, tmp_path))  # type: ignore[func-returns-value]

    taken = pipeline._locked_examples(taught, context(tmp_path, pip=pip, examples=place))

    assert taken == ((digest, tmp_path) if named else None)
    assert [named in one for one in asked if named] == [True] * bool(named)
