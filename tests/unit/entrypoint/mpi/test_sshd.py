"""The server of `worker`: what its sessions and it itself get."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.mpi import sshd
from entrypoint.mpi.keys import Keys
from entrypoint.mpi.sshd import escape, find_broken, set_env, strip_preloads


def test_a_session_gets_the_variables_that_sshd_can_set() -> None:
    environ = {"HF_TOKEN": 'a"b\\c', "PWD": "/", "BAD": "a\nb", "BASH_FUNC_x%%": "()", "PATH": "/bin"}
    assert set_env(environ) == ['"HF_TOKEN=a\\"b\\\\c"', '"PATH=/bin"']
    assert escape("plain") == "plain"


@pytest.mark.parametrize(
    ("value", "handed_over"),
    [
        ("hf_a\n", ['"HF_TOKEN=hf_a"']),  # kubectl create secret --from-file
        ("hf_a\r\n\n", ['"HF_TOKEN=hf_a"']),
        ("hf_a \r", ['"HF_TOKEN=hf_a \r"']),
        ("\n", ['"HF_TOKEN="']),
        ("a\nb", []),
        ("a\nb\n", []),
    ],
)
def test_a_variable_loses_line_breaks_at_its_end_or_is_named(value: str, handed_over: list[str]) -> None:
    environ = {"HF_TOKEN": value, "BASH_FUNC_x%%": "() {\n}"}

    assert set_env(environ) == handed_over
    assert find_broken(environ) == ([] if handed_over else ["HF_TOKEN"])


def service(name: str) -> dict[str, str]:
    """Return what a pod has of a Service of one port (Kubernetes documentation, "Discovering services")."""
    tcp = f"{name}_PORT_80_TCP"
    links = {f"{name}_PORT": "tcp://10.0.0.1:80", tcp: "tcp://10.0.0.1:80", f"{tcp}_PROTO": "tcp"}
    return {
        f"{name}_SERVICE_HOST": "10.0.0.1",
        f"{name}_SERVICE_PORT": "80",
        **links,
        f"{tcp}_PORT": "80",
        f"{tcp}_ADDR": "10.0.0.1",
    }


def test_the_services_of_a_large_namespace_do_not_end_a_session() -> None:
    kept = {"PATH": "/bin", "S_PORTAL": "x", **service("KUBERNETES")}
    few, many = ({**kept, **{k: v for n in range(count) for k, v in service(f"S{n}").items()}} for count in (100, 200))

    assert len(set_env(few)) == len(few)
    assert set_env(many) == set_env(kept)


def test_more_variables_than_ssh_hands_over_are_refused() -> None:
    with pytest.raises(Refusal, match="950 are set"):
        set_env({f"V{n}": "" for n in range(950)})


def test_sshd_keeps_only_the_name_of_its_user() -> None:
    assert strip_preloads({"LD_PRELOAD": "/a/libtcmalloc.so.4:/b/libnss_wrapper.so"}) == {
        "LD_PRELOAD": "/b/libnss_wrapper.so"
    }


@pytest.mark.parametrize(
    ("port", "error", "fact", "remedy"),
    [
        (22, None, "", ""),
        (22, OSError(98, "Address already in use"), "(Address already in use)", "MULTINODE_SSH_PORT=23 on"),
        (65535, OSError(98, "Address already in use"), "(Address already in use)", "MULTINODE_SSH_PORT=2222 on"),
        (22, PermissionError(13, "Permission denied"), "(Permission denied)", "MULTINODE_SSH_PORT=2222 on"),
    ],
)
def test_a_port_that_sshd_cannot_have_is_refused(
    port: int, error: OSError | None, fact: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd, "try_port", lambda _: error)
    if error is None:
        sshd.check_port(port)
        return
    with pytest.raises(Refusal) as caught:
        sshd.check_port(port)
    assert fact in caught.value.fact and remedy in caught.value.remedy and caught.value.code == 2


def test_sshd_takes_keys_alone_and_nothing_from_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")
    monkeypatch.setattr(sshd, "find_keys", lambda _: keys)
    monkeypatch.setattr(sshd, "make_host_key", lambda *_: ["HostKey /host"])
    monkeypatch.setattr(sshd, "check_port", lambda _: None)
    (tmp_path / "sshd").touch(0o755)
    monkeypatch.setattr(sshd, "SSHD", f"{tmp_path}/sshd")

    command, _ = sshd.serve({"PEM": "a\nsecret"})

    assert command == [f"{tmp_path}/sshd", "-D", "-e", "-f", f"{tmp_path}/sshd_config"]
    lines = Path(command[-1]).read_text().splitlines()
    closed = {"PasswordAuthentication no", "KbdInteractiveAuthentication no", "AcceptEnv none", "DisableForwarding yes"}
    assert closed <= set(lines)
    assert f"AuthorizedKeysFile {tmp_path}/authorized_keys" in lines
    assert capsys.readouterr().err == "multinode: ranks do not get variables whose value has a line break: PEM\n"
