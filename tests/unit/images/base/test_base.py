"""What is refused as a base."""

from __future__ import annotations

import pytest

from images.base.base import refuse
from images.host.errors import UserFault
from tests.support.base_facts import facts_of
from tests.support.stand_in import PACKAGES, SYSTEM, Files

MUSL: Files = {"bin/sh": b"", "lib/ld-musl-x86_64.so.1": b"", "usr/bin/python3.12": b""}


@pytest.mark.parametrize(
    ("layers", "python", "glibc", "reasons"),
    [
        ([MUSL], "3.12", "2.28", ["musl"]),
        ([SYSTEM, PACKAGES], "3.10", "2.36", ["its glibc is 2.35, 2.36 is needed"]),
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


def test_a_python_in_a_virtual_environment_is_refused() -> None:
    files: Files = {f"opt/venv/bin/{name}": "/usr/bin/python3.10" for name in ("python3", "python3.10")}
    found = facts_of(SYSTEM, {**files, "opt/venv/pyvenv.cfg": b"home = /usr/bin\n"}, path="/opt/venv/bin:/usr/bin")

    with pytest.raises(UserFault, match=r"its python3 is another program, not 3\.10"):
        refuse(found, "image", "3.10", "2.35")
