"""Users that /etc/passwd does not know."""

from __future__ import annotations

from entrypoint.container.identity import LIBRARIES, Identity, Who, identify

FILES = {"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "/etc/group": "root:x:0:\n", LIBRARIES[0]: "elf"}
UNKNOWN = Who(123456, 0, None, "root")


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
    assert found.files["/tmp/multinode-123456/passwd"] == FILES["/etc/passwd"] + line
    assert found.files["/tmp/multinode-123456/group"] == FILES["/etc/group"]
    assert found.variables["USER"] == "user123456" and found.variables["HOME"] == "/tmp/home-123456"
    assert found.variables["NSS_WRAPPER_PASSWD"] == "/tmp/multinode-123456/passwd"


def test_an_unknown_group_gets_a_line() -> None:
    found = identify(UNKNOWN._replace(gid=77, group=None), {}, lambda path: True, FILES.get)
    assert found.files["/tmp/multinode-123456/group"].endswith("user123456:x:77:\n")


def test_without_the_library_there_is_still_a_home() -> None:
    found = identify(UNKNOWN, {}, lambda path: True, lambda path: None)
    assert found.preload is None and found.files == {}
    assert found.variables == {"HOME": "/tmp/home-123456", "USER": "user123456", "LOGNAME": "user123456"}
