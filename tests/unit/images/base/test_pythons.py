"""Which Pythons are found in a root file system, and where they import packages from."""

from __future__ import annotations

from tests.support.base_facts import facts_of
from tests.support.stand_in import SYSTEM, Files


def test_a_python_outside_of_usr_has_its_own_directory() -> None:
    conda: Files = {
        "opt/conda/bin/python3.11": b"",
        "opt/conda/lib/python3.11/site-packages/a-1.0.dist-info/RECORD": b"",
    }

    found = facts_of(SYSTEM, conda, path="/opt/conda/bin:/usr/bin")

    assert found.pythons == {"3.11": "opt/conda/bin/python3.11", "3.10": "usr/bin/python3.10"}
    assert found.sites["3.11"] == ("opt/conda/lib/python3.11/site-packages",)


def test_the_first_python_on_the_path_counts() -> None:
    found = facts_of(SYSTEM, {"usr/local/bin/python3.10": b""})

    assert found.pythons == {"3.10": "usr/local/bin/python3.10"}
    assert found.sites["3.10"] == ("usr/local/lib/python3.10/site-packages",)


def test_a_link_leads_to_the_prefix_that_python_goes_by() -> None:
    files: Files = {"usr/local/bin/python3.11": "/opt/python/bin/python3.11", "opt/python/bin/python3.11": b""}

    found = facts_of(SYSTEM, files)

    assert found.pythons["3.11"] == "opt/python/bin/python3.11"
    assert found.sites["3.11"] == ("opt/python/lib/python3.11/site-packages",)


def test_what_forbids_pip_to_install_is_found() -> None:
    place = "usr/lib/python3.10/EXTERNALLY-MANAGED"

    assert facts_of(SYSTEM, {place: b"[externally-managed]\n"}).marks == {"3.10": place}
    assert facts_of(SYSTEM).marks == {}
