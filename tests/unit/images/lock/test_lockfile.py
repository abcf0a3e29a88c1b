"""The lock as a file: written, read back, and refused with every reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base.apt import Choice, Deb
from images.host.errors import UserFault
from images.lock import lockfile
from images.lock.lockfile import Archive, Lock, Locked, Standing
from images.lock.wheel_tags import Artifact
from images.oci.manifest import Descriptor, Manifest
from images.plan import catalog, planner

TABLE = catalog.load()
NOTHING = planner.Request()


def artifact(name: str, version: str) -> Artifact:
    return Artifact(name=name, version=version, filename=f"{name}.whl", url="file:///secret/place", sha256="0" * 64)


@pytest.fixture
def locked() -> Locked:
    return Locked(
        plan=planner.resolve(planner.Request(examples="none", bytecode=False), TABLE),
        lock=Lock(
            torch="2.13.0+cpu", transformers="5.23.0", python="3.11", undated=("torch",),
            artifacts=(artifact("torch", "2.13.0+cpu"), artifact("transformers", "5.23.0")),
        ),
        debian=Choice((Deb("tini", "0.19", "amd64", "tini_0.19_amd64.deb", "1" * 64),), "deb somewhere\n"),
        examples=Archive("examples.tar", "2" * 64),
    )  # fmt: skip


def test_what_is_written_is_read_back(locked: Locked) -> None:
    read = lockfile.read(lockfile.text(locked, beside=True), "x", NOTHING, TABLE)

    assert lockfile.text(read, beside=True) == lockfile.text(locked, beside=True)
    assert read.plan.bytecode is False
    assert read.debian == locked.debian
    assert read.plan.examples == f"sha256:{'2' * 64}"


def part(letter: str) -> Descriptor:
    return Descriptor("application/octet-stream", f"sha256:{letter * 64}", 7)


IMAGE = Manifest(f"sha256:{'a' * 64}", part("b"), (part("c"), part("d")))


def upon(locked: Locked, base: str, name: str | None) -> Locked:
    request = planner.Request(base=base, python="3.11", examples="none", bytecode=False)
    return replace(locked, plan=planner.resolve(request, TABLE), base=Standing(name, IMAGE, ("torch",)))


@pytest.mark.parametrize(
    ("base", "name", "said"),
    [
        ("oci:/secret/place", None, IMAGE.digest),
        ("host:5000/a/b:1", "host:5000/a/b:1", "host:5000/a/b:1"),
    ],
)
def test_a_base_of_others_is_locked_by_its_digests_and_no_place(
    locked: Locked, base: str, name: str | None, said: str
) -> None:
    text = lockfile.text(upon(locked, base, name))

    read = lockfile.read(text, "x", replace(NOTHING, base=base), TABLE)

    assert lockfile.text(read) == text and "secret" not in text
    assert json.loads(text)["plan"]["base"] == said
    assert [a.name for a in read.added] == ["transformers"]
    assert read.base == Standing(name, IMAGE, ("torch",))


@pytest.mark.parametrize("base", ["debian", "host:5000/a/b:2"])
def test_another_base_than_the_locks_is_refused(locked: Locked, base: str) -> None:
    text = lockfile.text(upon(locked, "host:5000/a/b:1", "host:5000/a/b:1"))

    with pytest.raises(UserFault, match=f"--base {base}, but the lock has"):
        lockfile.read(text, "x", replace(NOTHING, base=base), TABLE)


@pytest.mark.parametrize("digest", ["sha256:../../x", "", 3])
def test_a_base_with_odd_digests_is_damage(locked: Locked, digest: object) -> None:
    raw = lockfile.fields(upon(locked, "host:5000/a/b:1", "host:5000/a/b:1"))
    raw["base"]["manifest"]["config"]["digest"] = digest

    with pytest.raises(UserFault, match="damaged"):
        lockfile.read(json.dumps(raw), "x", NOTHING, TABLE)


def test_a_lock_names_no_place_and_inside_an_image_no_kind_of_place(locked: Locked) -> None:
    assert "secret" not in lockfile.text(locked, beside=True)
    assert "undated" in lockfile.text(locked, beside=True)
    assert "undated" not in lockfile.text(locked)


@pytest.mark.parametrize(
    ("changes", "fact", "value"),
    [
        ({"base": {"reference": None}}, "damaged", "manifest"),
        ({"format": 99}, "another format", "99"),
        ({"machine": "aarch64"}, "another kind of machine", "aarch64"),
        ({"tools": {}}, "does not fit", "zstandard"),
        ({"debs": 3}, "damaged", "TypeError"),
        ({"artifacts": []}, "damaged", "torch"),
        ({"plan": {}}, "damaged", "torch"),
    ],
)
def test_what_does_not_fit_is_named(locked: Locked, changes: dict[str, Any], fact: str, value: str) -> None:
    raw = {**lockfile.fields(locked), **changes}

    with pytest.raises(UserFault) as caught:
        lockfile.read(json.dumps(raw), "my.lock", NOTHING, TABLE)

    assert fact in caught.value.fact
    assert value in caught.value.value
    assert "my.lock" in str(caught.value)


def test_every_drift_is_named_at_once(locked: Locked) -> None:
    asked = replace(NOTHING, torch="2.12.0", transformers="5.22.2", tasks=("translation",), as_of="2026-11-20")

    with pytest.raises(UserFault) as caught:
        lockfile.read(lockfile.text(locked), "my.lock", asked, TABLE)

    for word in ("--torch 2.12.0", "--transformers 5.22.2", "--tasks translation", "--as-of 2026-11-20", "2.13.0"):
        assert word in caught.value.value


def test_what_the_lock_says_may_be_asked_for_again(locked: Locked) -> None:
    asked = replace(NOTHING, torch="2.13.0", backend="gloo", base="debian", tag="mine:1")

    assert lockfile.read(lockfile.text(locked), "x", asked, TABLE).plan.tag == "mine:1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)
)
KEYS = ("format", "machine", "plan", "artifacts", "debs", "examples", "tools", "undated")


@given(
    st.text()
    | st.dictionaries(st.sampled_from(KEYS), json_values).map(
        lambda raw: json.dumps({**raw, "format": lockfile.FORMAT, "machine": lockfile.MACHINE})
    )
)
def test_any_text_is_a_lock_or_a_fault(text: str) -> None:
    with pytest.raises(UserFault):
        lockfile.read(text, "x", NOTHING, TABLE)
