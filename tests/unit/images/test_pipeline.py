"""What of a lock is fetched from where, what is refused before anything is, and which base is read out of an image."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from images import pipeline
from images.base import debian
from images.base.base import Base, BaseImage
from images.base.pulled import pull_image
from images.context import Context
from images.host.errors import Damaged, UserFault, WorldFault
from images.layers import examples
from images.lock.lock import Examples, Lock
from images.oci import reference
from images.pipeline import Locked
from images.plan import catalog, planner
from images.plan.plan import Request
from images.platforms import AMD64
from images.store.blobs import sha256
from images.store.store import Store
from tests.golden.command import NO_ENGINE
from tests.support import locks
from tests.support.bases import base
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

    with pytest.raises(
        WorldFault, match=f"parts of the base are missing: .*{locked.base_image.manifest.config.digest}"
    ):
        pipeline.fetch_files(locked, context(tmp_path))


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
    good, failed = base(SYSTEM, made=True), Future[Base]()
    failed.set_exception(fault)
    monkeypatch.setattr(debian, "make_base", lambda *_: good)
    begun = Locked(locks.lock(debs=()), making=failed)

    if is_made:
        assert pipeline._debian_base(begun, context(tmp_path)) is good
    else:
        with pytest.raises(WorldFault, match="no room"):
            pipeline._debian_base(begun, context(tmp_path))
