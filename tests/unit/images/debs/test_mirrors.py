"""Where Debian packages come from, as mmdebstrap and apt say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.debs.mirrors import KEYRING, addresses, default_sources, signed, sources


def test_debians_keyring_is_named_in_every_source() -> None:
    listed = "deb http://mirror/debian trixie main\ndeb [trusted=yes] file:/x ./\n"

    assert (
        signed(listed) == f"deb [signed-by={KEYRING}] http://mirror/debian trixie main\ndeb [trusted=yes] file:/x ./\n"
    )


def target(release: str, host: str, *, origin: str = "$(ORIGIN)", codename: str = "$(CODENAME)") -> str:
    return f"{origin}\t{codename}\t{release}\thttp://{host}/\n"


STAND_IN = """#!/bin/sh
case "$*" in *--skip=check/signed-by*) trusted=1;; esac
[ "$trusted" ] || [ ! -e "${0%/*}/gpg" ] || option=' [signed-by="/a/key.gpg"]'
echo "SOURCE: deb$option http://debian x main" >&2
exit 1
"""
OWN = target("x", "main") + target("x-updates", "main") + target("x-security", "safe")
OTHER = (
    target("stable", "main", origin="Debian", codename="y")
    + target("y-updates", "main", origin="Debian", codename="y-updates")
    + target("y-security", "safe", origin="Debian", codename="y-security")
)


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("", []),
        ("odd\n", []),
        (OWN, ["main/ x", "main/ x-updates", "safe/ x-security"]),
        (OTHER, ["main/ x", "main/ x-updates", "safe/ x-security"]),
        (target("x", "mine") + OTHER, ["mine/ x", "main/ x-updates", "safe/ x-security"]),
        (OTHER + target("x", "mine"), ["mine/ x", "main/ x-updates", "safe/ x-security"]),
        (target("x-security", "safe"), []),
        (target("x-backports", "main") + target("x", "main"), ["main/ x"]),
        (target("xy", "main"), []),
        (target("noble", "ubuntu", origin="Ubuntu", codename="noble"), []),
        (target("y", "main"), []),
        (target("y/updates", "safe", origin="Debian", codename="y"), []),
        (target("y-backports", "main", origin="Debian Backports", codename="y-backports"), []),
    ],
)
def test_a_suite_has_the_addresses_that_the_machine_has_debian_from(printed: str, lines: list[str]) -> None:
    assert sources(printed, "x") == "".join(f"deb http://{line} main\n" for line in lines)


@given(st.text())
def test_any_target_is_read(printed: str) -> None:
    assert isinstance(sources(printed, "x"), str)


def test_addresses_are_listed_once() -> None:
    listed = (
        "deb http://a/debian x main\ndeb http://a/debian/ x-updates main\n# deb http://b x\n"
        'deb [arch=amd64 signed-by="/a key.gpg"] http://c x main\ndeb [trusted=yes] file:/x ./\n'
    )

    assert addresses(listed) == ["http://a/debian", "http://c", "file:/x"]


@pytest.mark.parametrize("programs", [["gpg", "mmdebstrap"], ["mmdebstrap"]])
def test_the_sources_of_a_suite_are_the_same_whatever_the_machine_trusts(tmp_path: Path, programs: list[str]) -> None:
    """A stand-in for mmdebstrap: it names the keyring where there is gpg, unless it is told not to look."""
    for name in programs:
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)

    assert default_sources("x", {"PATH": f"{tmp_path}:/usr/bin:/bin"}) == "deb http://debian x main\n"
