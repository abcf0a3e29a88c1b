"""What is refused as a base."""

from __future__ import annotations

import pytest

from images.base.base import refuse
from images.host.errors import UserFault
from tests.support.base_facts import facts_of
from tests.support.elf import library
from tests.support.stand_in import LIBRARY, PACKAGES, SYSTEM, Directory, Files

MUSL: Files = {"bin/sh": b"", "lib/ld-musl-x86_64.so.1": b"", "usr/bin/python3.12": b""}
NEWEST = b"GNU C Library (GNU libc) stable release version 2.99"
OLD_CXX: Files = {f"{LIBRARY}/libstdc++.so.6": library(has=["GLIBCXX_3.4.22"])}


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
    layers: list[Files], python: str, glibc: str, reasons: list[str]
) -> None:
    with pytest.raises(UserFault) as caught:
        refuse(facts_of(*layers), "registry/image:1", python, glibc)

    assert caught.value.value.startswith("registry/image:1: ")
    assert all(reason in caught.value.value for reason in reasons)


def test_what_can_work_is_not_refused() -> None:
    refuse(facts_of(SYSTEM, PACKAGES), "registry/image:1", "3.10", "2.35")


@pytest.mark.parametrize(
    ("root", "closed"),
    [
        (Directory(0o700), True),
        (Directory(0o710), False),
        (Directory(0o701), True),
        (Directory(0o701, gid=5), False),
        (Directory(0o700, uid=1000), False),
        (Directory(0o755), False),
    ],
)
def test_a_python_that_our_user_cannot_reach_is_refused(root: Directory, closed: bool) -> None:
    links = dict.fromkeys(("usr/local/bin/python3.10", "usr/local/bin/python3"), "/root/conda/bin/python3.10")
    files: Files = {"root": root, "root/conda/bin/python3.10": b"", **links}
    found = facts_of(SYSTEM, files)

    if closed:
        with pytest.raises(UserFault, match="its Python is in /root, which uid 1000 may not enter"):
            refuse(found, "image", "3.10", "2.35")
    else:
        refuse(found, "image", "3.10", "2.35")


@pytest.mark.parametrize(
    ("glibc", "symbols"),
    [("2.4", "3.4.8"), ("2.17", "3.4.19"), ("2.28", "3.4.24"), ("2.36", "3.4.30"), ("2.50", "3.4.33")],
)
def test_wheels_ask_for_what_their_tag_allows(glibc: str, symbols: str) -> None:
    old: Files = {f"{LIBRARY}/libstdc++.so.6": library(has=["GLIBCXX_3.4.1"]), f"{LIBRARY}/libc.so.6": NEWEST}

    with pytest.raises(UserFault, match=rf"wheels ask for GLIBCXX_{symbols}\n") as caught:
        refuse(facts_of(SYSTEM, old), "image", "3.10", glibc)

    assert "glibc is" not in caught.value.value
