"""Variables of a host, and what is left of them in a container."""

from __future__ import annotations

import pytest

from multinode_image.machine.inherited import ROWS, Here, drop_unfit

FILES = {
    "/usr/lib/libmine.so",
    "/usr/lib/python3.11/os.py",
    "/etc/ssl/ca.pem",
    "/sys/class/net/lo",
    "/sys/class/net/eth0",
    "/sys/class/net/net1",
}
HERE = Here("3.11", FILES.__contains__)


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
        ("SSL_CERT_FILE", "/opt/conda/ssl/cacert.pem", None),
        ("REQUESTS_CA_BUNDLE", "/etc/ssl/ca.pem", "/etc/ssl/ca.pem"),
        ("GLOO_SOCKET_IFNAME", "^lo,docker", None),
        ("GLOO_SOCKET_IFNAME", "eth0,net1", "eth0,net1"),
        ("GLOO_SOCKET_IFNAME", "eth0,ib0", None),
        ("FI_TCP_IFACE", "ib0", None),
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
