"""The hosts of a job, from --hosts or a hostfile of any dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.machine.files import read_text
from multinode_image.reading import MOST_PROCESSES, first_set, is_loopback, whole
from multinode_image.world.table import HOSTFILES

USAGE = "launch --hosts node0,node1 -n 2 --ppn 1 smoke --bf16"
# Letters of a line that are shown.
LONGEST = 200
FORMS = "one host a line: node0, node0:2 or node0 slots=2; an address of IPv6 needs a name in /etc/hosts"


class Host(NamedTuple):
    """A name or address, and how many ranks it has room for; None if nobody said."""

    name: str
    slots: int | None


def read_hosts(text: str) -> list[Host]:
    """Return the hosts of `--hosts a,b:2`."""
    return merge_hosts([read_host_row(part.strip(), f"--hosts {text}") for part in text.split(",") if part.strip()])


def read_hostfile(text: str, path: str) -> list[Host]:
    """Return the hosts of a file, one a line: `node0`, `node0:2` (Intel MPI, MPICH) or `node0 slots=2` (Open MPI)."""
    hosts = []
    for count, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path} line {count}: {line.strip()[:LONGEST]}"
        host = read_host_row(words[0], where)
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key not in ("slots", "max_slots", "max-slots") or not whole(value):
                raise Refusal("the hostfile has a line that is not understood", where, FORMS)
            host = host._replace(slots=whole(value)) if key == "slots" else host
        hosts.append(host)
    return merge_hosts(hosts)


def read_host_row(word: str, where: str) -> Host:
    """Return one host; raise Refusal for what is no name, as an address of IPv6: hydra takes a number after a colon."""
    name, colon, slots = word.partition(":")
    is_name = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name)  # one that begins with a dash is an option to ssh
    if not is_name or (colon and not whole(slots)):
        raise Refusal("this is not the name of a host", where, FORMS)
    return Host(name, whole(slots) if colon else None)


def merge_hosts(hosts: list[Host]) -> list[Host]:
    """Return each host once, with its slots added up: old hostfiles list every host once for every rank."""
    slots: dict[str, int | None] = {}
    one = 1 if len({host.name for host in hosts}) < len(hosts) else None
    for host in hosts:
        before, here = slots.get(host.name), host.slots or one
        slots[host.name] = here if before is None or here is None else before + here
    return [Host(name, count) for name, count in slots.items()]


def find_hosts(typed: str | None, path: str | None, environ: Mapping[str, str]) -> list[Host]:
    """List the hosts: those that were typed, or those of a file, else of the file that an operator has written."""
    hosts: list[Host] = []
    path = path or ("" if typed is not None else first_set(environ, HOSTFILES))
    if typed is not None:
        hosts = read_hosts(typed)
    elif path:
        text = read_text(path)
        if text is None:
            raise Refusal("the hostfile cannot be read", path, "--hostfile FILE, or --hosts node0,node1")
        hosts = read_hostfile(text, path)
    if not hosts:
        raise Refusal("launch knows no hosts", path or "neither --hosts nor --hostfile", USAGE)
    loopback = next((host.name for host in hosts if is_loopback(host.name)), None)
    if loopback and len(hosts) > 1:
        raise Refusal("loopback is a different machine on every host", loopback, "this host's name on the network")
    return hosts


def place_ranks(hosts: list[Host], ranks: int | None, per_node: int | None, default: int) -> dict[str, int]:
    """Return the hosts that get ranks, and how many: --ppn, else its slots, else the default, one host after the other.

    -n limits them; where it is more than all slots, every host gets as many. The default is what fits the node where
    `launch` runs: the others are taken to be like it.
    """
    room = {host.name: per_node or host.slots or default for host in hosts}
    total = sum(room.values())
    if ranks is not None and ranks > total:
        even = -(-ranks // len(room))
        if per_node is not None:
            value = f"-n {ranks}, {len(room)} host(s) x {per_node}"
            raise Refusal("there are more ranks than places for them", value, f"-n {total}, or --ppn {even}")
        room = dict.fromkeys(room, even)
    if (most := max(room.values())) > MOST_PROCESSES:
        raise Refusal(f"a node has at most {MOST_PROCESSES} ranks", most, "-n, --ppn or slots for the cores it has")
    left, placed = total if ranks is None else ranks, {}
    for name, count in room.items():  # as hydra fills them
        placed[name] = min(count, left)
        left -= placed[name]
    return {name: count for name, count in placed.items() if count}
