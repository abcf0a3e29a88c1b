"""The command line of scripts/manifest.py: a manifest on stdout, how many pods and where results are on stderr."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TextIO

import yaml

from entrypoint.errors import EXIT_OUTSIDE, EXIT_USER, Refusal, one_row
from entrypoint.printing.streams import mute
from manifests import command
from manifests.kinds import mpijob, pytorchjob, storage, trainer
from manifests.request import MPIJOB, PREFETCH, PVC, PYTORCHJOB, TRAINJOB, Request, make_parser, make_request


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


def read_words(argv: Sequence[str]) -> dict[str, Any]:
    """Return what was typed; raise Refusal for what can neither be in YAML nor in a container, or is no option."""
    wrong = next((word for word in argv if re.search("[\0\ud800-\udfff]", word)), None)
    if wrong is not None:
        raise Refusal("this is no text that a container can be given", repr(wrong[:40]), "the same in UTF-8")
    typed, unknown = make_parser().parse_known_args(argv)
    # `--name=--` is taken for a name without a value (python/cpython#109475, mended early in 2024).
    unknown += [key for key, value in vars(typed).items() if key != "words" and (value == [] or value == [[]])]
    if unknown:
        fact, value = "the command line cannot be read", f"unrecognized arguments: {' '.join(unknown)}"
        raise Refusal(fact, value, f"scripts/manifest.py {typed.kind} --help")
    return vars(typed)


def decide(argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the manifest that was asked for, and what is to be said of it; raise Refusal for what cannot run."""
    request = make_request(read_words(argv))
    if request.kind == PVC:
        return storage.write_claim(request), []
    request = command.finish(request)
    tag = [] if "@" in request.image else ["the image has no digest, so that pods may get different ones of a tag"]
    if request.kind == PREFETCH:
        return storage.write_prefetch(request), tag
    said = [describe_pods(request), *command.describe_results(request)]
    if request.kind == PYTORCHJOB:
        return pytorchjob.write_pytorchjob(request), [*said, *pytorchjob.list_notes(request), *tag]
    if request.kind == MPIJOB:
        return mpijob.write_mpijob(request), [*said, *tag]
    if request.kind == TRAINJOB:
        return trainer.write_trainjob(request), [*said, *trainer.list_job_notes(request), *tag]
    return trainer.write_runtime(request), [*said, *trainer.list_runtime_notes(request), *tag]


def describe_pods(request: Request) -> str:
    """Return how many pods and processes there will be."""
    low, high = request.elastic or (request.workers, request.workers)
    pods = f"{low} pod(s)" if low == high else f"{low} to {high} pod(s)"
    if request.nproc is None and request.kind == PYTORCHJOB:
        return f"{pods}, each with a process for each NUMA node that its cores fill"
    end = "" if request.nproc else "; --nproc 2 where its cores fill two NUMA nodes (lscpu)"
    return f"{pods} x {request.processes} process(es){end}"


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
    remedy = re.sub(r"\bexport (?=[A-Z_]+=)", "--env ", refusal.remedy).replace("or unset it", "or leave it out")
    return f"error: {refusal.fact}: {one_row(refusal.value)}\n  try: {one_row(remedy)}\n"


def main(argv: Sequence[str], out: TextIO | None, err: TextIO | None) -> int:
    """Print a manifest: keys in the order in which people read them; return the exit code."""
    try:
        manifest, notes = decide(argv)
    except Refusal as refusal:
        write_all(err, explain(refusal))
        return EXIT_USER  # everything is known before anything could fail outside
    write_all(err, "".join(f"manifest: {note}\n" for note in notes))
    fault = write_all(out, yaml.dump(manifest, Dumper=Plain, sort_keys=False, width=10**6, allow_unicode=False))
    if fault:
        write_all(err, explain(Refusal("the manifest cannot be written", fault, "> FILE, where there is room for it")))
    return EXIT_OUTSIDE if fault else 0
