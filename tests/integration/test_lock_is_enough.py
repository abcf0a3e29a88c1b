"""A lock is enough: whatever changes in rules, tables and packages, it builds the image that it built before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import checkout
from tests.support.checkout import PAIR, REQUEST, Built, Checkout
from tests.support.harness import assert_three_parts

TABLE = "images/versions.toml"


class Locked(NamedTuple):
    """Sources, the image that they built, its lock, and the bundle of that."""

    sources: Checkout
    image: Built
    lock: Path
    bundle: Path


@pytest.fixture(scope="module")
def locked(module_path: Path) -> Locked:
    sources = checkout.make(module_path)
    image, lock = sources.lock(*REQUEST)
    bundle = module_path / "bundle.tar"
    assert sources.run("bundle", "--lock", str(lock), "--output", str(bundle)).code == 0
    return Locked(sources, image, lock, bundle)


def refuse_the_pair(sources: Checkout) -> None:
    rule = "    if not _within(torch.version, transformers.torch):\n"
    sources.replace("images/plan/compatibility.py", rule, f'    yield "a later rule"\n{rule}')


def remove_the_table(sources: Checkout) -> None:
    (sources.sources / TABLE).unlink()


class Change(NamedTuple):
    """How sources are changed, what is then said of the request of the lock, and whether code is among them."""

    make: Callable[[Checkout], None]
    said: str
    is_code: bool = False


CHANGES = {
    "a rule refuses the pair": Change(refuse_the_pair, "a later rule", is_code=True),
    "there is no table": Change(remove_the_table, "versions.toml"),
}


class Changed(NamedTuple):
    """Sources that were changed, and whether code is among them."""

    sources: Checkout
    is_code: bool


@pytest.fixture(scope="module", params=CHANGES)
def changed(locked: Locked, request: pytest.FixtureRequest) -> Changed:
    """Change a copy of the sources, and see that a new lock would be refused, or another one."""
    change = CHANGES[request.param]
    sources = locked.sources.copy(request.param)
    change.make(sources)
    again = sources.run("lock", *REQUEST)
    assert change.said in again.text and change.said not in locked.lock.read_text()
    return Changed(sources, change.is_code)


def test_the_lock_builds_the_same_image(locked: Locked, changed: Changed) -> None:
    """What the lock says may be asked for again: it is compared with the lock, and not with the table."""
    image = changed.sources.build("--lock", str(locked.lock), *PAIR, "--base", "debian")

    assert image.digest == locked.image.digest
    assert changed.is_code or image.new == []


def test_its_bundle_builds_the_same_image_from_an_empty_cache(locked: Locked, changed: Changed) -> None:
    image = changed.sources.build("--offline", str(locked.bundle), cache=f"cache of {changed.sources.sources.name}")

    assert (image.reused, image.notes) == ([], [])
    assert image.digest == locked.image.digest


def test_an_image_is_verified_by_files_that_are_named(locked: Locked) -> None:
    """Wheels that no index has any more, as the message of the first try says."""
    sources, nowhere = locked.sources, {"cache": "verified", "PIP_FIND_LINKS": ""}

    refused = sources.run("verify", "layout", **nowhere)
    assert (refused.code, "try: --wheelhouse DIR with those very files" in refused.err) == (1, True)
    assert sources.run("verify", "layout", "--wheelhouse", "wheels", **nowhere).code == 0


def test_an_image_is_compared_with_the_lock_that_is_named(locked: Locked, tmp_path: Path) -> None:
    lock = tmp_path / "pylock.other.toml"
    lock.write_text(re.sub(r"(?m)^family-as-of = .*$", "family-as-of = 2020-01-01", locked.lock.read_text()))
    assert locked.sources.run("verify", "--lock", str(locked.lock), "layout").code == 0
    assert locked.sources.run("verify", "--offline", str(locked.bundle), "layout").code == 0

    done = locked.sources.run("verify", "--lock", str(lock), "layout")

    assert done.code == 1
    assert "components.json: sha256:" in done.err
    assert locked.sources.run("verify", "--offline", str(tmp_path / "none"), "layout").code == 2


@pytest.mark.parametrize(("option", "value"), [("--examples", "archive.tar"), ("--base", "intel")])
def test_what_is_named_to_verify_fits_the_lock(locked: Locked, option: str, value: str) -> None:
    done = locked.sources.run("verify", "layout", option, value)

    assert_three_parts(done, 2, f"does not fit: {option} {value}, but the lock has", "leave those options out")
