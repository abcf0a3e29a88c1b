"""What an image says of itself, who runs in it, and what a container inherits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multinode_image.machine.identity import LIBRARIES, Identity, Who, identify, is_closed
from multinode_image.machine.image import (
    LAUNCHED,
    list_hidden,
    list_sites,
    read_built,
    read_installed,
    read_stack,
    release,
    warn_hidden,
    warn_stack,
)
from multinode_image.machine.inherited import ROWS, Here, drop_unfit

FACTS = {"torch": "2.13.0", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "examples": "", "site": "/s"}


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, ""),
        ({LAUNCHED: ""}, ""),
        ({LAUNCHED: "gloo, torch 2.13.0"}, ""),
        ({LAUNCHED: "ccl, torch 2.13.0"}, "gloo, torch 2.13.0, and that of `launch` ccl, torch 2.13.0"),
        ({LAUNCHED: "gloo, torch 2.4.0"}, "gloo, torch 2.13.0, and that of `launch` gloo, torch 2.4.0"),
    ],
)
def test_a_rank_in_another_image_than_that_of_launch_is_noted(environ: dict[str, str], says: str) -> None:
    notes = warn_stack(read_stack(json.dumps(FACTS)), environ)
    assert says in "".join(notes)
    assert bool(notes) == bool(says)


def test_the_variables_of_an_image_are_in_its_stack() -> None:
    text = json.dumps({**FACTS, "environment": {"I_MPI_ROOT": "/usr/local/opt/mpi"}})
    stack = read_stack(text)
    assert (stack.environment, stack.examples) == ({"I_MPI_ROOT": "/usr/local/opt/mpi"}, None)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("5.23.0", (5, 23)),
        ("4.46.0.dev0", (4, 46)),
        ("2.13.0+cpu", (2, 13)),
        ("1.9", (1, 9)),
        ("5", (0, 0)),
        ("x.y", (0, 0)),
    ],
)
def test_a_release_is_its_first_two_numbers(version: str, numbers: tuple[int, int]) -> None:
    assert release(version) == numbers


def test_the_first_directory_on_the_path_counts(tmp_path: Path) -> None:
    for name in ("mine/six-2.0.dist-info", "site/six-1.0.dist-info", "site/Foo_bar-1.0+cpu.dist-info", "site/six"):
        (tmp_path / name).mkdir(parents=True)
    path = [str(tmp_path / name) for name in ("absent", "mine", "site")]
    assert read_installed(path) == {"six": ("2.0",), "foo-bar": ("1.0+cpu",)}


@pytest.mark.parametrize(
    ("environ", "sites"),
    [
        ({"HOME": "/home/a"}, ["/home/a/.local/lib/python3.11/site-packages", "/s"]),
        ({"HOME": "/home/a", "PYTHONNOUSERSITE": "1"}, ["/s"]),
        ({"HOME": "/home/a", "PYTHONUSERBASE": "/b"}, ["/b/lib/python3.11/site-packages", "/s"]),
        ({"PYTHONPATH": "/p::/q", "PYTHONNOUSERSITE": "1"}, ["/p", "/q", "/s"]),
    ],
)
def test_python_has_packages_of_its_path_the_user_and_the_image(environ: dict[str, str], sites: list[str]) -> None:
    assert list_sites(read_stack(json.dumps(FACTS)), environ) == sites


@pytest.mark.parametrize(
    ("packages", "environ", "hidden"),
    [
        ((), {}, []),
        (("Six-2.0", "pip-1", "mine-1"), {}, ["six"]),
        (("Six-2.0",), {"PYTHONNOUSERSITE": "1"}, []),
        (("six-1.0",), {}, []),
        (("e-2", "d-2", "c-2", "b-2"), {}, ["b", "c", "d", "e"]),
    ],
)
def test_packages_that_a_home_hides_are_named(
    tmp_path: Path, packages: tuple[str, ...], environ: dict[str, str], hidden: list[str]
) -> None:
    site, home = tmp_path / "image", tmp_path / "home" / ".local/lib/python3.11/site-packages"
    for place, names in ((site, ("six-1.0", "pip-2", "b-1", "c-1", "d-1", "e-1")), (home, packages)):
        for name in names:
            (place / f"{name}.dist-info").mkdir(parents=True)
    stack, environ = read_stack(json.dumps({**FACTS, "site": str(site)})), {"HOME": f"{tmp_path}/home", **environ}

    assert list_hidden(stack, environ) == hidden
    said = f"{' '.join(hidden)} of {home} hide those of the image; "
    assert warn_hidden(stack, environ) == (
        [f"{said}PYTHONNOUSERSITE=1 leaves them out (Apptainer: --no-home)"] if hidden else []
    )


PARTS = [
    {"name": "Scikit_Learn", "version": "1.7", "purl": "pkg:pypi/scikit-learn@1.7"},
    {"name": "adduser", "version": "3.1", "purl": "pkg:deb/debian/adduser@3.1"},
    {"name": "/workspace/train.py", "type": "file"},
]


@pytest.mark.parametrize(
    ("text", "built"),
    [
        (json.dumps({"components": PARTS}), {"scikit-learn": "1.7"}),
        (json.dumps({"components": [{"purl": "pkg:pypi/a"}]}), {}),
        (json.dumps({"components": ["a"]}), {}),
        (None, {}),
        ("[]", {}),
        ("{", {}),
    ],
)
def test_packages_of_python_are_read_from_the_sbom(text: str | None, built: dict[str, str]) -> None:
    assert read_built(text) == built


FILES = {"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "/etc/group": "root:x:0:\n", LIBRARIES[0]: "elf"}
UNKNOWN = Who(123456, 0, None, "root")


def read(identity: Identity, database: str) -> str:
    """Return the text of the file that takes the place of /etc/passwd or /etc/group."""
    return identity.files[identity.variables[f"NSS_WRAPPER_{database}"]]


def test_a_known_user_with_a_home_needs_nothing() -> None:
    who = Who(1000, 0, "multinode", "root")
    identity = identify(who, {"HOME": "/home/multinode"}, lambda path: True, FILES.get)
    assert identity == Identity({}, None, (), {})


def test_a_known_user_on_a_read_only_root_gets_a_home() -> None:
    identity = identify(Who(1000, 0, "multinode", "root"), {"HOME": "/home/multinode"}, lambda path: False, FILES.get)
    assert (identity.variables, identity.directories, identity.preload) == (
        {"HOME": "/tmp/home-1000"},
        ("/tmp/home-1000",),
        None,
    )


def test_an_unknown_user_gets_a_name() -> None:
    identity = identify(UNKNOWN, {"HOME": "/"}, lambda path: True, FILES.get)
    line = "user123456:x:123456:0:user123456:/tmp/home-123456:/bin/bash\n"
    assert identity.preload == LIBRARIES[0]
    assert read(identity, "PASSWD") == FILES["/etc/passwd"] + line
    assert read(identity, "GROUP") == FILES["/etc/group"]
    assert all(path.startswith("/tmp/multinode-123456/") for path in identity.files)
    assert identity.variables["USER"] == "user123456" and identity.variables["HOME"] == "/tmp/home-123456"


def test_an_unknown_group_gets_a_line() -> None:
    identity = identify(UNKNOWN._replace(gid=77, group=None), {}, lambda path: True, FILES.get)
    assert read(identity, "GROUP").endswith("user123456:x:77:\n")


def test_another_image_of_the_same_user_has_files_of_its_own() -> None:
    """Containers of Apptainer and Charliecloud share the directory of their host."""
    one = identify(UNKNOWN, {}, lambda path: True, FILES.get)
    other = identify(UNKNOWN, {}, lambda path: True, {**FILES, "/etc/passwd": "sshd:x:100:65534::/run/sshd:/x\n"}.get)

    assert {*one.files} & {*other.files} == {one.variables["NSS_WRAPPER_GROUP"]}


def test_without_the_library_there_is_still_a_home() -> None:
    identity = identify(UNKNOWN, {}, lambda path: True, lambda path: None)
    assert identity.preload is None and identity.files == {}
    assert identity.variables == {"HOME": "/tmp/home-123456", "USER": "user123456", "LOGNAME": "user123456"}
    assert identify(UNKNOWN, identity.variables, lambda path: True, FILES.get).variables.keys().isdisjoint({"USER"})


CRIO = "1000660000:x:1000660000:0:1000660000 user:/workspace:/sbin/nologin\n"


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "other:x:7:0::/:/bin/sh\n"), ("\n", "")])
def test_a_user_whose_shell_is_closed_gets_another_row_in_the_place_of_his_own(before: str, after: str) -> None:
    files = {**FILES, "/etc/passwd": FILES["/etc/passwd"] + before + CRIO + after}
    who = Who(1000660000, 0, "1000660000", "root", closed=True)
    identity = identify(who, {"HOME": "/workspace"}, lambda path: True, files.get)
    row = "1000660000:x:1000660000:0:1000660000:/workspace:/bin/bash\n"
    kept = FILES["/etc/passwd"] + before.lstrip() + after
    assert read(identity, "PASSWD") == kept + row
    assert identity.preload == LIBRARIES[0]
    assert identity.variables.keys() == {"NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"}


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


INHERITED = {
    "/usr/lib/libmine.so",
    "/usr/lib/python3.11/os.py",
    "/etc/ssl/ca.pem",
    "/sys/class/net/lo",
    "/sys/class/net/eth0",
    "/sys/class/net/net1",
}
HERE = Here("3.11", INHERITED.__contains__)


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("LD_PRELOAD", "/usr/lib/libmine.so", "/usr/lib/libmine.so"),
        ("LD_PRELOAD", "libmine.so", "libmine.so"),  # the loader looks for it
        ("LD_PRELOAD", "/usr/$LIB/xalt.so", "/usr/$LIB/xalt.so"),
        ("LD_PRELOAD", "/host/darshan.so /usr/lib/libmine.so", "/usr/lib/libmine.so"),
        ("LD_PRELOAD", "/host/darshan.so /host/other.so", None),
        ("LD_AUDIT", "/host/audit.so", None),
        ("PYTHONHOME", "/apps/python/3.9.6", None),
        ("PYTHONHOME", "/usr", "/usr"),
        ("PYTHONHOME", "/usr:/apps/python", None),
        ("PYTHONPATH", "/made/later", "/made/later"),
        ("PYTHONPATH", "src:/apps/lib/python3.9/site-packages:/x", "src:/x"),
        ("PYTHONPATH", "/apps/lib64/python3.9", None),
        ("PYTHONPATH", "/opt/conda/lib/python3.13t/site-packages", None),
        ("PYTHONPATH", "/workspace/python3.12/src:/apps/python3.9", "/workspace/python3.12/src:/apps/python3.9"),
        ("PYTHONPATH", "/apps/lib/python3.11/site-packages", "/apps/lib/python3.11/site-packages"),
        ("PYTHONPATH", "/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages"),
        ("PYTHONOPTIMIZE", "2", None),
        ("PYTHONOPTIMIZE", "1", "1"),
        ("PYTHONOPTIMIZE", "yes", "yes"),
        *(
            (name, "/opt/conda/ssl/cacert.pem", None)
            for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
        ),
        ("REQUESTS_CA_BUNDLE", "/etc/ssl/ca.pem", "/etc/ssl/ca.pem"),
        ("GLOO_SOCKET_IFNAME", "^lo,docker", None),
        ("GLOO_SOCKET_IFNAME", "eth0,net1", "eth0,net1"),
        ("GLOO_SOCKET_IFNAME", "eth0,ib0", None),
        *((name, "ib0", None) for name in ("FI_TCP_IFACE", "I_MPI_HYDRA_IFACE", "HYDRA_IFACE")),
        ("CCL_KVS_IFACE", "../lo", None),
        ("I_MPI_HYDRA_IFACE", "", ""),
        ("OTHER", "/host/any", "/host/any"),
    ],
)
def test_what_would_break_programs_here_is_left_out(name: str, text: str, left: str | None) -> None:
    environ, notes = drop_unfit({name: text, "HOME": "/"}, HERE)

    assert environ.get(name) == left
    assert [note.partition("=")[0] for note in notes] == ([] if left == text else [name])


def test_where_ranks_are_elsewhere_or_no_interface_is_known_their_names_are_left() -> None:
    environ = {"GLOO_SOCKET_IFNAME": "ib0"}

    assert drop_unfit(environ, HERE._replace(has_ranks=False)) == (environ, ())
    assert drop_unfit(environ, Here("3.11", lambda path: False)) == (environ, ())


def test_a_note_names_only_what_is_lost() -> None:
    _, [note] = drop_unfit({"PYTHONPATH": "/x:/apps/lib/python3.9"}, HERE)

    assert note == "PYTHONPATH=/apps/lib/python3.9 is left out: the Python of this container is 3.11"


def test_what_was_left_out_is_not_missed_again() -> None:
    unfit = {name: "/host/lib/python3.9/2" for name in ROWS}

    once, notes = drop_unfit(unfit, HERE)

    assert len(notes) == len(ROWS) - 1 and drop_unfit(once, HERE) == (once, ())
