"""Users that /etc/passwd does not know."""

from __future__ import annotations

import pytest

from multinode_image.machine.identity import LIBRARIES, Identity, Who, identify, is_closed

FILES = {"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "/etc/group": "root:x:0:\n", LIBRARIES[0]: "elf"}
UNKNOWN = Who(123456, 0, None, "root")


def read(found: Identity, database: str) -> str:
    """Return the text of the file that takes the place of /etc/passwd or /etc/group."""
    return found.files[found.variables[f"NSS_WRAPPER_{database}"]]


def test_a_known_user_with_a_home_needs_nothing() -> None:
    who = Who(1000, 0, "multinode", "root")
    found = identify(who, {"HOME": "/home/multinode"}, lambda path: True, FILES.get)
    assert found == Identity({}, None, (), {})


def test_a_known_user_on_a_read_only_root_gets_a_home() -> None:
    found = identify(Who(1000, 0, "multinode", "root"), {"HOME": "/home/multinode"}, lambda path: False, FILES.get)
    assert (found.variables, found.directories, found.preload) == (
        {"HOME": "/tmp/home-1000"},
        ("/tmp/home-1000",),
        None,
    )


def test_an_unknown_user_gets_a_name() -> None:
    found = identify(UNKNOWN, {"HOME": "/"}, lambda path: True, FILES.get)
    line = "user123456:x:123456:0:user123456:/tmp/home-123456:/bin/bash\n"
    assert found.preload == LIBRARIES[0]
    assert read(found, "PASSWD") == FILES["/etc/passwd"] + line
    assert read(found, "GROUP") == FILES["/etc/group"]
    assert all(path.startswith("/tmp/multinode-123456/") for path in found.files)
    assert found.variables["USER"] == "user123456" and found.variables["HOME"] == "/tmp/home-123456"


def test_an_unknown_group_gets_a_line() -> None:
    found = identify(UNKNOWN._replace(gid=77, group=None), {}, lambda path: True, FILES.get)
    assert read(found, "GROUP").endswith("user123456:x:77:\n")


def test_another_image_of_the_same_user_has_files_of_its_own() -> None:
    """Containers of Apptainer and Charliecloud share the directory of their host."""
    one = identify(UNKNOWN, {}, lambda path: True, FILES.get)
    other = identify(UNKNOWN, {}, lambda path: True, {**FILES, "/etc/passwd": "sshd:x:100:65534::/run/sshd:/x\n"}.get)

    assert {*one.files} & {*other.files} == {one.variables["NSS_WRAPPER_GROUP"]}


def test_without_the_library_there_is_still_a_home() -> None:
    found = identify(UNKNOWN, {}, lambda path: True, lambda path: None)
    assert found.preload is None and found.files == {}
    assert found.variables == {"HOME": "/tmp/home-123456", "USER": "user123456", "LOGNAME": "user123456"}


CRIO = "1000660000:x:1000660000:0:1000660000 user:/workspace:/sbin/nologin\n"


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "other:x:7:0::/:/bin/sh\n"), ("\n", "")])
def test_a_user_whose_shell_is_closed_gets_another_row_in_the_place_of_his_own(before: str, after: str) -> None:
    files = {**FILES, "/etc/passwd": FILES["/etc/passwd"] + before + CRIO + after}
    who = Who(1000660000, 0, "1000660000", "root", closed=True)
    found = identify(who, {"HOME": "/workspace"}, lambda path: True, files.get)
    row = "1000660000:x:1000660000:0:1000660000:/workspace:/bin/bash\n"
    kept = FILES["/etc/passwd"] + before.lstrip() + after
    assert read(found, "PASSWD") == kept + row
    assert found.preload == LIBRARIES[0]
    assert found.variables.keys() == {"NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"}


@pytest.mark.parametrize(
    ("shell", "closed"),
    [
        ("/bin/bash", False), ("", False), (None, False), ("/sbin/nologin", True), ("/usr/sbin/nologin", True),
        ("/bin/false", True), ("/bin/zsh", True),
    ],
)  # fmt: skip
def test_a_shell_that_runs_no_command(shell: str | None, closed: bool) -> None:
    there = ("/bin/bash", "/sbin/nologin", "/usr/sbin/nologin", "/bin/false")
    assert is_closed(shell, there.__contains__) is closed
