"""Which Pythons are found in a root file system, and where they import packages from."""

from __future__ import annotations

import pytest

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


def test_a_link_in_a_virtual_environment_is_what_starts_its_python() -> None:
    files: Files = {"opt/venv/bin/python3.10": "/usr/bin/python3.10", "opt/venv/pyvenv.cfg": b"home = /usr/bin\n"}

    found = facts_of(SYSTEM, files, path="/opt/venv/bin:/usr/bin")

    assert (found.pythons["3.10"], found.starts["3.10"]) == ("usr/bin/python3.10", "opt/venv/bin/python3.10")
    assert found.sites["3.10"] == ("opt/venv/lib/python3.10/site-packages",)


def test_a_link_with_another_version_in_its_name_is_no_python() -> None:
    """Every Python of conda from 3.10 on has one (conda/conda#11423)."""
    conda: Files = {f"opt/conda/bin/{name}": "python3.11" for name in ("python", "python3", "python3.1")}
    conda = {**conda, "opt/conda/bin/python3.11": b""}

    found = facts_of(SYSTEM, conda, path="/opt/conda/bin:/usr/bin")

    assert found.pythons == {"3.11": "opt/conda/bin/python3.11", "3.10": "usr/bin/python3.10"}
    assert found.commands == {"python": "3.11", "python3": "3.11"}


@pytest.mark.parametrize(
    ("release", "first"),
    [
        (b"ID=arch\n", "usr"),
        (b"ID=azurelinux\n", "usr"),
        (b"", "usr"),
        (b"ID=fedora\n", "usr/local"),
        (b'ID="rocky"\nID_LIKE="rhel centos fedora"\n', "usr/local"),
        (b'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "usr/local"),
    ],
)
def test_only_some_distributions_import_from_usr_local(release: bytes, first: str) -> None:
    files: Files = {"etc/os-release": release, "usr/bin/python3.11": b""}

    assert facts_of(files).sites["3.11"] == (f"{first}/lib/python3.11/site-packages",)


@pytest.mark.parametrize("lib", ["lib", "lib64"])
def test_what_forbids_pip_to_install_is_found(lib: str) -> None:
    place = f"usr/{lib}/python3.10/EXTERNALLY-MANAGED"

    assert facts_of(SYSTEM, {place: b"[externally-managed]\n"}).marks == {"3.10": place}
    assert facts_of(SYSTEM).marks == {}


def test_lib64_is_asked_first_by_a_python_that_has_its_modules_there() -> None:
    """As `site` does with sys.platlibdir."""
    fedora: Files = {"etc/os-release": b"ID=fedora\n", "usr/bin/python3.11": b"", "usr/lib64/python3.11/os.py": b""}
    own: Files = {f"usr/{lib}/python3.11/site-packages": None for lib in ("lib", "lib64")}

    assert facts_of(fedora, own).sites["3.11"] == (
        "usr/local/lib64/python3.11/site-packages",
        "usr/lib64/python3.11/site-packages",
        "usr/lib/python3.11/site-packages",
    )


@pytest.mark.parametrize("lib64", [{"usr/local/lib64": "lib"}, {"usr/local/lib64/python3.11/site-packages": None}])
def test_lib64_is_not_asked_by_a_python_that_has_its_modules_in_lib(lib64: Files) -> None:
    files: Files = {"usr/local/bin/python3.11": b"", "usr/local/lib/python3.11/os.py": b"", **lib64}

    assert facts_of(SYSTEM, files).sites["3.11"] == ("usr/local/lib/python3.11/site-packages",)
