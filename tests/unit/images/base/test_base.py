"""What is refused as a base."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.base.base import refuse
from images.base.pulled import Foreign, bring
from images.host.context import Access
from images.host.errors import UserFault
from images.host.store import Store
from images.oci import reference
from tests.support.elf import library
from tests.support.stand_in import LIBRARY, PACKAGES, SYSTEM, Files, Image, layout, write

MUSL: Files = {"bin/sh": b"", "lib/ld-musl-x86_64.so.1": b"", "usr/bin/python3.12": b""}
OLD_CXX: Files = {f"{LIBRARY}/libstdc++.so.6": library(has=["GLIBCXX_3.4.22"])}


def brought(text: str, store: Path) -> Foreign:
    return bring(reference.parse(text), Store(store), Access(environ={}), lambda _: None)


@pytest.mark.parametrize(
    ("layers", "python", "glibc", "reasons"),
    [
        ([MUSL], "3.12", "2.28", ["musl"]),
        ([SYSTEM, PACKAGES], "3.10", "2.36", ["its glibc is 2.35, 2.36 is needed"]),
        ([SYSTEM, OLD_CXX], "3.10", "2.28", ["GLIBCXX_3.4.22", "GLIBCXX_3.4.24"]),
        ([SYSTEM, {"usr/bin/.wh.sh": b""}], "3.10", "2.28", ["no shell"]),
        ([SYSTEM, PACKAGES], "3.11", "2.28", ["no Python 3.11 (it has 3.10)"]),
        ([{"etc/passwd": b""}], "3.11", "2.28", ["no glibc", "it has none"]),
    ],
)
def test_what_cannot_work_is_refused_with_every_reason(
    tmp_path: Path, layers: list[Files], python: str, glibc: str, reasons: list[str]
) -> None:
    write(tmp_path / "layout", layout({"1": Image(layers)}))
    found = brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store")

    with pytest.raises(UserFault) as caught:
        refuse(found, python, glibc)

    assert all(reason in caught.value.value for reason in reasons)


def test_what_can_work_is_not_refused(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))

    refuse(brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store"), "3.10", "2.35")
