"""Options of torchrun in variables, and what is refused of them."""

from __future__ import annotations

import re

import pytest

from entrypoint.errors import USER, Refusal
from entrypoint.rendezvous.options import (
    WHOLE,
    check_options,
    check_rendezvous_backend,
    read_conf,
    warn_range,
)
from entrypoint.world.table import detect, read_world

ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
MASTER = {"MASTER_ADDR": "m", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2"}


@pytest.mark.parametrize(
    ("backend", "etcd", "fact"),
    [
        ("", False, ""),
        ("c10d", False, ""),
        ("static", False, ""),
        ("etcd-v2", True, ""),
        ("etcd", False, "needs the Python package python-etcd"),
        ("etcd-v2", False, "needs the Python package python-etcd"),
        ("C10D", True, "no such backend"),
        ("$(BACKEND)", False, "no such backend"),
    ],
)
def test_a_backend_that_torchrun_does_not_have_is_refused(backend: str, etcd: bool, fact: str) -> None:
    environ = {**ELASTIC, "PET_RDZV_BACKEND": backend}
    if not fact:
        check_rendezvous_backend(environ, etcd=etcd)
        return
    with pytest.raises(Refusal, match=fact) as caught:
        check_rendezvous_backend(environ, etcd=etcd)
    assert caught.value.remedy.startswith("c10d") and caught.value.code == USER


@pytest.mark.parametrize(
    ("environ", "noted"),
    [
        ({**MASTER, "PET_NNODES": "1:2"}, True),
        ({**MASTER, "PET_NNODES": "2:2"}, False),
        (MASTER, False),
        (ELASTIC, False),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "m", "LOCAL_RANK": "0", "PET_NNODES": ""}, False),
    ],
)
def test_a_range_of_nodes_at_a_master_gets_a_note(environ: dict[str, str], noted: bool) -> None:
    notes = warn_range(environ, read_world(environ, detect(environ), None))
    assert ["waits for all 2 nodes; export PET_RDZV_ENDPOINT=HOST:29400" in note for note in notes] == [True] * noted


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        *(("PET_MAX_RESTARTS", value, "") for value in ("", "0", "3")),
        ("PET_MAX_RESTARTS", "-1", "PET_MAX_RESTARTS is not a number"),
        *((name, value, "") for name in WHOLE for value in ("", "0", "30")),
        *((name, value, f"{name} is not a number") for name in WHOLE for value in ("30s", "yes")),
        ("PET_STANDALONE", "yes", "PET_STANDALONE is not a number"),
        *(("PET_LOCAL_RANKS_FILTER", value, "") for value in ("", "0", "0, 1")),
        ("PET_LOCAL_RANKS_FILTER", "0,", "is not a list of ranks"),
        ("PET_LOCAL_RANKS_FILTER", "all", "is not a list of ranks"),
        *(("PET_MONITOR_INTERVAL", value, "") for value in ("", "0.1", "5")),
        *(("PET_MONITOR_INTERVAL", value, "is not a number of seconds") for value in ("0", "-1", "5s", "nan")),
        ("PET_RDZV_CONF", "timeout=5", ""),
        ("PET_RDZV_CONF", "timeout", "is not a list of settings"),
    ],
)
def test_options_that_torchrun_cannot_read_are_refused(name: str, value: str, fact: str) -> None:
    if not fact:
        check_options({name: value})
        return
    with pytest.raises(Refusal, match=fact) as caught:
        check_options({name: value})
    assert name in caught.value.fact and caught.value.value == repr(value) and caught.value.code == USER


@pytest.mark.parametrize(
    ("port", "fact"),
    [("", ""), ("1", ""), ("65535", ""), ("0", "no master at port 0"), ("65536", "below 65536"), ("x", "below 65536")],
)
def test_a_port_that_is_none_is_refused(port: str, fact: str) -> None:
    if not fact:
        return check_options({"PET_MASTER_PORT": port})
    with pytest.raises(Refusal, match=fact) as caught:
        check_options({"PET_MASTER_PORT": port})
    assert caught.value.remedy == "export PET_MASTER_PORT=29500; of a typed torchrun --master_port 29500"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("timeout=900, is_host=TRUE", {"timeout": "900", "is_host": "TRUE"}),
        ("keep_alive_interval=0,protocol=http", {"keep_alive_interval": "0", "protocol": "http"}),
    ],
)
def test_settings_of_a_rendezvous_are_read(text: str, found: dict[str, str]) -> None:
    assert read_conf({"PET_RDZV_CONF": text}) == found


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("timeout=0", "with a number of seconds for each timeout$"),
        ("join_timeout=1m", "with a number of seconds for each timeout$"),
        ("is_host=maybe", "and yes or no for is_host$"),
        ("keep_alive_max_attempt=x", "and for keep_alive_max_attempt$"),
        ("=5", "is not a list"),
        ("timeout=900,", "is not a list"),
    ],
)
def test_settings_that_torchrun_cannot_read_are_refused(text: str, fact: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_conf({"PET_RDZV_CONF": text})
    assert re.search(fact, caught.value.fact) and caught.value.remedy == "export PET_RDZV_CONF=timeout=900, or unset it"
