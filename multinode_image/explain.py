"""The plan of a start in words: one line at every start, everything for --explain."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from multinode_image.decide import Plan
from multinode_image.errors import one_row
from multinode_image.machine.limits import BF16_UNITS
from multinode_image.printing.secrets import hide
from multinode_image.printing.streams import print_note, quote
from multinode_image.reading import write_cpus
from multinode_image.settings import OURS
from multinode_image.tasks.command import NOTES, PLACE
from multinode_image.tuning.gradients import SENT, read_choice
from multinode_image.world.model import ALONE, TORCHRUN

if TYPE_CHECKING:
    from multinode_image.memory.estimate import Needed


def print_start(plan: Plan) -> None:
    """Print the line that begins a log, and the notes, once for each node."""
    says = plan.situation.command.kind.says
    if plan.world.local_rank:
        return
    if plan.situation.must_be_asked:  # torchrun's agent prints the others (hooks/ends/ranks.py)
        for note in plan.facts.notes:
            print_note(note)
        return
    if PLACE in says:
        print_note(one_line(plan))
    if NOTES in says:
        kept = {name: short(value) for name, value in sorted(plan.prepared.kept.items()) if not name.startswith(OURS)}
        yours = " ".join(f"{name}={value}" for name, value in kept.items())
        for note in [*([f"kept yours: {yours}"] if yours else []), *plan.notes]:
            print_note(note)


def one_line(plan: Plan) -> str:
    """Return the line that begins every log: the place of this process, its threads, by what and where ranks meet."""
    world, environ = plan.world, plan.prepared.environ
    threads = environ.get("OMP_NUM_THREADS", "")
    parts = [describe_place(plan)]
    if threads:
        suffix = " each" if (world.local_size or 1) > 1 and world.rank is None else ""
        parts.append(f"{threads} thread{'' if threads == '1' else 's'}{suffix}")
    if plan.situation.meets_others:
        interface = environ.get("GLOO_SOCKET_IFNAME", "")
        parts.append(f"{plan.backend} on {interface}" if interface else plan.backend)
    meets = plan.situation.meets_others and world.several_nodes and world.master
    return ", ".join(parts) + describe_batch(plan) + (f", meeting at {world.master}:{world.port}" if meets else "")


def describe_place(plan: Plan) -> str:
    """Return which rank of how many this process is, or which ranks it starts."""
    world, here = plan.world, plan.world.local_size or 1
    if world.rank is not None:
        nodes = f" on {world.nodes[1]} nodes" if world.several_nodes else ""
        return f"rank {world.rank} of {world.size}{nodes}, started by {world.launcher}"
    if not plan.situation.meets_others:
        return "alone" if world.launcher == ALONE else f"one process, in a pod or node of {world.launcher}"
    if not world.several_nodes:
        return f"{here} ranks on this node"
    if world.node_rank is None:
        low, high = world.nodes
        return f"one of {low if low == high else f'{low} to {high}'} nodes, {count(here, 'rank')} here"
    first = world.node_rank * here
    ranks = f"rank {first}" if here == 1 else f"ranks {first} to {first + here - 1}"
    return f"node {world.node_rank} of {world.nodes[1]}, {ranks} of {world.size_text}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 rank`, `2 ranks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe(plan: Plan) -> str:
    """Return the world and the machine in a few words."""
    world, machine = plan.world, plan.machine
    if plan.situation.must_be_asked:
        return "known then"
    place = f"rank {world.rank} of {world.size}" if world.rank is not None else f"world {world.size_text}"
    nodes = world.nodes[0] if world.nodes[0] == world.nodes[1] else f"{world.nodes[0]}:{world.nodes[1]}"
    cores = (
        f"{machine.cores} of {machine.physical} cores"
        if machine.cores != machine.physical
        else f"{machine.cores} cores"
    )
    return f"{place} = {nodes} node(s) x {world.local_size} process(es) on {cores}{describe_batch(plan)}"


def describe_batch(plan: Plan) -> str:
    """Return the batch of a step, which grows with the world; empty for one process, and where none is known."""
    low, high = plan.world.sizes
    if plan.batch is None or high < 2:
        return ""
    batch = plan.batch
    return f", effective batch {low * batch}" + ("" if low == high else f" to {high * batch}")


def short(value: str) -> str:
    """Return a value for one line: libraries without their directories, a value with blanks in quotes."""
    value = ":".join(part.rpartition("/")[2] for part in value.split(":")) if ".so" in value else value
    return f"'{value}'" if " " in value else value


def list_facts(plan: Plan) -> dict[str, object]:
    """Return everything for programs."""
    world, machine = plan.world, plan.machine
    places = {name: value for name, value in world._asdict().items() if name not in ("started_alone", "outer", "notes")}
    why = places.pop("why")
    launcher = places.pop("launcher")
    low, high = world.sizes
    needed = find_memory(plan)
    places.update(size=low if low == high else None, sizes=[low, high], nodes=list(world.nodes))
    return {
        "launcher": launcher,
        "why": why,
        "world": places,
        "machine": {**machine.facts(), "bf16": plan.facts.limits.bf16_units},
        "backend": plan.backend,
        "set": plan.prepared.added,
        "kept": plan.prepared.kept,
        **({"memory": {"rank": needed.rank, "node": needed.node, "limit": needed.limit}} if needed else {}),
        "notes": [*plan.notes, *list_warnings(needed)],
        "argv": hide(plan.argv),
    }


def find_memory(plan: Plan) -> Needed | None:
    """Return what the training takes of memory; None where that is not known."""
    from multinode_image.memory.estimate import find_needed  # a start does not ask

    try:
        return find_needed(plan.situation, plan.facts, plan.arguments)
    except Exception:  # an estimate, which reads files of strangers, ends no command
        return None


def list_warnings(needed: Needed | None) -> list[str]:
    """List what is wrong with the memory that a training takes; empty where nothing is known to be."""
    return [needed.note] if needed and needed.note else []


def plan_as_json(plan: Plan) -> str:
    """Return everything as one JSON object."""
    return json.dumps(list_facts(plan), indent=2)


def plan_as_text(plan: Plan) -> str:
    """Return everything for people, a line for each variable, with its reason."""
    world, machine, prepared = plan.world, plan.machine, plan.prepared
    quota = "no limit" if machine.quota is None else f"{machine.quota:g} processors"
    needed = find_memory(plan)
    nodes = " | ".join(write_cpus(node) for node in machine.nodes)
    rows = [
        ("launcher", f"{TORCHRUN if plan.situation.must_be_asked else world.launcher}: {world.why}"),
        ("world", describe(plan)),
        ("master", f"{world.master}:{world.port or 'a free port'}" if world.master else "none"),
        ("processors", f"{write_cpus(machine.cpus)}, {machine.physical} cores"),
        ("NUMA nodes", nodes),
        ("backend", plan.backend + ("" if plan.backend == "ccl" else "; this image has no oneCCL bindings")),
        ("bf16", " ".join(plan.facts.limits.bf16_units) or "none of " + ", ".join(BF16_UNITS)),
        ("quota", quota + (", pinned by the launcher" if machine.pinned else "")),
        *([("gradients", SENT[read_choice(plan.facts.environ)])] if plan.situation.meets_others else []),
        *(("set", f"{name}={value}  # {plan.reasons.get(name, '')}") for name, value in prepared.added.items()),
        *(("kept", f"{name}={value}  # yours") for name, value in prepared.kept.items()),
        *([("memory", needed.text)] if needed else []),
        *(("note", note) for note in (*plan.notes, *list_warnings(needed))),
        ("command", " ".join(quote(word) for word in hide(plan.argv))),
    ]
    return "\n".join(f"{name:11} {one_row(text)}" for name, text in rows)
