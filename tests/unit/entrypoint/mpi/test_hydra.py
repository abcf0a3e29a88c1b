"""What hydra is told, without starting it."""

from __future__ import annotations

import pytest

from entrypoint.mpi import hydra
from entrypoint.mpi.hydra import find_hydra_interface, make_bootstrap_variables


def test_an_operator_s_ssh_arguments_stay() -> None:
    found = make_bootstrap_variables(
        {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10"}, "/c", "/opt/x", None
    )
    assert found["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"] == "-F /c -o ConnectionAttempts=10"
    assert found["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "/opt/x/ssh"
    assert "I_MPI_HYDRA_IFACE" not in found


@pytest.mark.parametrize(("environ", "given"), [({}, {"I_MPI_HYDRA_IFACE": "eth1"}), ({"I_MPI_HYDRA_IFACE": "x"}, {})])
def test_hydra_is_told_the_interface(environ: dict[str, str], given: dict[str, str]) -> None:
    found = make_bootstrap_variables(environ, "/c", "/opt/x", "eth1")
    assert {name: value for name, value in found.items() if name == "I_MPI_HYDRA_IFACE"} == given


@pytest.mark.parametrize(("own", "interface"), [("10.77.0.1", "eth1"), ("fd77::1", None), (None, None)])
def test_hydra_is_told_the_interface_of_an_address_of_ipv4_only(
    own: str | None, interface: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hydra, "own_address", lambda host: own)
    monkeypatch.setattr(hydra, "find_interface_to", lambda host: "eth1")
    assert find_hydra_interface("node1") == interface
