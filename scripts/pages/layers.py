"""How our programs are built: their packages from the lowest on, and what they do, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# The packages, and the modules outside of packages, of each program; imports lead from a later row to earlier ones.
LAYERS: Mapping[str, Sequence[Sequence[str]]] = {
    "images": (
        ("terminal",),
        ("host",),
        ("foreign", "parser"),
        ("debs", "plan", "oci"),
        ("transport",),
        ("base", "wheels"),
        ("lock",),
        ("layers",),
        ("inspection",),
        ("options", "report", "pipeline"),
        ("commands", "planning"),
        ("cli",),
    ),
    "entrypoint": (
        ("errors",),
        ("addresses", "numbers", "settings", "printing"),
        ("container",),
        ("launchers", "faults"),
        ("processes",),
        ("meeting", "tuning", "training"),
        ("needs", "runs", "situation"),
        ("decide",),
        ("explain", "cluster", "doctor", "hub"),
        ("jobs",),
        ("carry_out",),
        ("__main__",),
    ),
    "manifests": (
        ("fields",),
        ("request",),
        ("options", "task", "division", "pod"),
        ("kinds",),
        ("cli",),
    ),
    "benchmarks": (
        ("figures", "host"),
        ("sides",),
        ("build", "image", "start", "store", "train"),
        ("report",),
        ("__main__",),
    ),
    "scripts": (
        ("pages", "versions"),
        ("architecture", "faults", "launchers", "manifest", "update_versions"),
    ),
}

# What a build, a start and a manifest go through, step by step: from, to, and what is handed on.
FLOWS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "images": (
        ("cli", "plan.request", "command line"),
        ("plan.request", "plan.planner", "request"),
        ("plan.planner", "lock.resolve", "plan"),
        ("lock.resolve", "lock.collect", "lock: every file by sha256"),
        ("lock.collect", "base.base", "packages, or a pulled image"),
        ("lock.collect", "layers.assemble", "wheels"),
        ("base.base", "layers.assemble", "base"),
        ("layers.assemble", "oci.image", "layers"),
        ("oci.image", "transport.engine", "image"),
        ("transport.engine", "inspection.import_check", "loaded image"),
    ),
    "entrypoint": (
        ("__main__", "training.job", "arguments"),
        ("training.job", "situation", "job"),
        ("launchers.table", "situation", "world"),
        ("container.processors", "situation", "machine"),
        ("situation", "decide", "situation"),
        ("container.image", "decide", "stack"),
        ("tuning.variables", "decide", "variables, each with its reason"),
        ("training.command", "decide", "command"),
        ("decide", "explain", "decision"),
        ("decide", "carry_out", "decision"),
        ("carry_out", "exec", "environment and command"),
    ),
    "manifests": (
        ("cli", "options", "command line"),
        ("options", "request", "values"),
        ("request", "division", "job, with its operator's variables"),
        ("division", "kinds.trainer", "processes of each pod"),
        ("request", "pod", "job"),
        ("pod", "kinds.pytorchjob", "pods"),
    ),
}
