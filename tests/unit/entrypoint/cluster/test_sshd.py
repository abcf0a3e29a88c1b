"""The server of `worker`: what its sessions and it itself get."""

from __future__ import annotations

from entrypoint.cluster.sshd import escape, set_env, strip


def test_a_session_s_environment() -> None:
    environ = {"HF_TOKEN": 'a"b\\c', "PWD": "/", "BAD": "a\nb", "BASH_FUNC_x%%": "()", "PATH": "/bin"}
    assert set_env(environ) == ['"HF_TOKEN=a\\"b\\\\c"', '"PATH=/bin"']
    assert escape("plain") == "plain"


def test_sshd_keeps_only_the_name_of_its_user() -> None:
    assert strip({"LD_PRELOAD": "/a/libtcmalloc.so.4:/b/libnss_wrapper.so"}) == {"LD_PRELOAD": "/b/libnss_wrapper.so"}
