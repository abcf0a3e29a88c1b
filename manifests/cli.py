"""The command line of scripts/manifest.py: a manifest on stdout, what becomes of the cores on stderr."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TextIO

import yaml

from entrypoint.errors import USER, WORLD, Refusal, one_row
from entrypoint.printing.streams import mute
from manifests import options, task
from manifests.division import Division, count_processes, describe, divide
from manifests.kinds import mpi_runtime, mpijob, pytorchjob, storage, trainer
from manifests.pod import check_variables
from manifests.request import ALL, MPI, MPIJOB, PREFETCH, PVC, PYTORCHJOB, RUNTIME, TRAINJOB, Job

HELP = {
    PYTORCHJOB: "a PyTorchJob, as in the Hugging Face guide",
    TRAINJOB: "a TrainJob of Trainer v2",
    RUNTIME: "a ClusterTrainingRuntime of Trainer v2, for TrainJobs that share it",
    MPIJOB: "an MPIJob",
    PVC: "a claim for storage",
    PREFETCH: "a Job that fetches model and data of a task into the claim, once",
}
# What the operator of each kind sets in a pod.
VARIABLES = {
    PYTORCHJOB: pytorchjob.list_variables,
    TRAINJOB: trainer.list_variables,
    RUNTIME: trainer.list_variables,
    MPIJOB: mpijob.list_variables,
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors have three parts."""

    def error(self, message: str) -> NoReturn:
        """Raise Refusal instead of ending the program."""
        raise Refusal("the command line cannot be read", message, f"{self.prog} --help")


class Plain(yaml.SafeDumper):
    """A writer of YAML without anchors, which people would have to follow."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return that everything is written out."""
        return True


# What kubectl reads as a number or as true and false, and PyYAML as text: a writer quotes what it knows so.
# Sources: resolve in resolve.go of sigs.k8s.io/yaml (goyaml.v2), and ParseInt of Go's strconv with base 0.
# The first removes every `_` behind the first character, wherever it is.
FLOAT = r"[-+]?_*(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE]_*[-+]?[0-9_]+)?"
NOT_TEXT = re.compile(rf"({FLOAT}|[-+]?_*0_*[oOxXbB][0-9a-fA-F_]+|[yYnN])\Z")
Plain.add_implicit_resolver("!kubectl", NOT_TEXT, list("-+.0123456789yYnN"))


def make_parser() -> Parser:
    """Return the parser of the command line; values are read later, by the table of options."""
    parser = Parser(
        prog="scripts/manifest.py", description="Print a manifest for `kubectl apply -f -`.", allow_abbrev=False
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="|".join(ALL))
    for kind in ALL:
        one = kinds.add_parser(kind, help=HELP[kind], description=f"Print {HELP[kind]}.", allow_abbrev=False)
        for each in options.of_kind(kind):
            shown = f"{each.help}; default: {each.default}" if each.default else each.help
            one.add_argument(each.name, metavar=each.metavar, action="append" if each.many else "store", help=shown)
        if kind != PVC:
            one.add_argument("words", nargs=argparse.REMAINDER, metavar="TASK ARGUMENT...", help="default: qa --bf16")
    return parser


def write_manifest(job: Job, division: Division) -> dict[str, Any]:
    """Return the manifest of a job whose cores are divided so."""
    if job.kind == PYTORCHJOB:
        return pytorchjob.write_pytorchjob(job)
    if job.kind == RUNTIME:
        return mpi_runtime.write_mpi_runtime(job, division) if job.policy == MPI else trainer.write_runtime(job)
    return trainer.write_trainjob(job, division) if job.kind == TRAINJOB else mpijob.write_mpijob(job, division)


def check_own(job: Job) -> None:
    """Raise Refusal for a variable that the operator sets itself, before its value is looked at."""
    if job.kind in (TRAINJOB, RUNTIME):
        trainer.check_variables(job)
    else:
        check_variables(job.pod, mpijob.OPERATORS if job.kind == MPIJOB else pytorchjob.list_variables(job))


def decide(typed: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the manifest that was asked for, and what is to be said of it; raise Refusal for what cannot run."""
    kind = typed["kind"]
    values = options.read_values(kind, typed)
    if kind == PVC:
        return storage.write_claim(options.make_claim(values)), []
    job = task.finish_task(options.make_job(kind, values, task.choose_words(kind, typed["words"])))
    notes = [] if "@" in job.pod.image else ["the image has no digest, so that pods may get different ones of a tag"]
    if kind == PREFETCH:
        return storage.write_prefetch(job), notes
    by_mpi = kind == MPIJOB or job.policy == MPI
    if by_mpi and job.nproc is None:
        job = replace(job, nproc=count_processes(job))  # mpirun asks for a number
    check_own(job)
    division = divide(job, mpijob.list_variables(job) if by_mpi else VARIABLES[kind](job))
    return write_manifest(job, division), [*describe(job, division), *list_own_notes(job, division), *notes]


def list_own_notes(job: Job, division: Division) -> list[str]:
    """Return what somebody should know of this kind of job."""
    if job.kind == RUNTIME:
        return [] if job.policy == MPI else trainer.list_notes(division)
    if job.kind == TRAINJOB:
        return trainer.list_job_notes(job)
    return pytorchjob.list_notes(job) if job.kind == PYTORCHJOB else []


def write_text(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as YAML: keys in the order in which people read them, the same bytes for the same manifest."""
    return yaml.dump(dict(manifest), Dumper=Plain, sort_keys=False, width=10**6, allow_unicode=False)


def write_all(stream: TextIO | None, text: str) -> str:
    """Write a text, and return why that cannot be done; empty where it is. A stream that was closed is None."""
    if stream is None:
        return "it is closed"
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        mute(stream, stream.fileno())
        return error.strerror or str(error)
    return ""


def explain(refusal: Refusal) -> str:
    """Return the two lines of a message; what the entrypoint would have exported is an option here."""
    remedy = re.sub(r"\bexport (?=[A-Z_]+=)", "--env ", refusal.remedy)
    remedy = re.sub(r"\bunset ([A-Z_]+)\b( for prefetch alone)?", r"leave out --env \1", remedy)
    remedy = remedy.replace("or unset it", "or leave it out")
    return f"error: {refusal.fact}: {one_row(refusal.value)}\n  try: {one_row(remedy)}\n"


def read_words(argv: Sequence[str]) -> dict[str, Any]:
    """Return what was typed; raise Refusal for an unknown option, with the help that lists those of its kind."""
    typed, unknown = make_parser().parse_known_args(argv)
    if unknown:
        fact, value = "the command line cannot be read", f"unrecognized arguments: {' '.join(unknown)}"
        raise Refusal(fact, value, f"scripts/manifest.py {typed.kind} --help")
    return vars(typed)


def main(argv: Sequence[str], out: TextIO | None, err: TextIO | None) -> int:
    """Print a manifest; return the exit code."""
    try:
        manifest, notes = decide(read_words(argv))
    except Refusal as refusal:
        write_all(err, explain(refusal))
        return USER  # everything is known before anything could fail outside
    write_all(err, "".join(f"manifest: {note}\n" for note in notes))
    fault = write_all(out, write_text(manifest))
    if fault:
        write_all(err, explain(Refusal("the manifest cannot be written", fault, "> FILE, where there is room for it")))
    return WORLD if fault else 0
