"""The command line of scripts/manifest.py: a manifest on stdout, how many pods and where results are on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from manifests import command
from manifests.options import make_parser, make_request
from manifests.patch import merge
from manifests.pod import write_scripts
from manifests.request import INDEX, Request
from manifests.yaml_writer import write_yaml
from multinode_image.errors import EXIT_OUTSIDE, EXIT_USER, Refusal, one_row
from multinode_image.printing.streams import mute


def make_objects(argv: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the objects, the job last, and what is to be said of them; raise Refusal for what cannot run."""
    request = make_request(vars(make_parser().parse_args(argv)))
    if request.kind.has_pods:
        request = command.finish(request)
    needed = [*write_scripts(request), *request.kind.write_needed(request)]
    return [*needed, merge(request.kind.write(request), request.patch)], describe_manifest(request)


def describe_manifest(request: Request) -> list[str]:
    """Return what somebody should know of a manifest before it is applied."""
    notes = []
    if request.kind.trains:
        notes = [describe_pods(request), *command.describe_results(request)]
    notes += request.kind.list_notes(request)
    if request.kind.has_pods and "@" not in request.image:
        notes.append("the image has no digest, so that pods may get different ones of a tag")
    return notes


def describe_pods(request: Request) -> str:
    """Return how many pods and processes there will be."""
    if request.is_sweep:
        return f"{request.workers} pod(s), each with a training of its own, whose number is {INDEX}"
    low, high = request.elastic or (request.workers, request.workers)
    pods = f"{low} pod(s)" if low == high else f"{low} to {high} pod(s)"
    if request.nproc is None and request.kind.counts_cores:
        return f"{pods}, each with a process for each NUMA node that its cores fill"
    end = "" if request.nproc else "; --nproc 2 where its cores fill two NUMA nodes (lscpu)"
    return f"{pods} x {request.processes} process(es){end}"


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Print a manifest: keys in the order in which people read them; return the exit code."""
    try:
        objects, notes = make_objects(argv)
        text = write_yaml(objects)
        for note in notes:
            print(f"manifest: {note}", file=err)
        print(text, end="", file=out, flush=True)
    except Refusal as refusal:
        print(f"error: {refusal.finding}\n  try: {one_row(refusal.remedy)}", file=err)
        return EXIT_USER  # everything is known before anything could fail outside
    except OSError as error:
        mute(out, out.fileno())
        said = error.strerror or error
        print(f"error: the manifest cannot be written: {said}\n  try: > FILE, where there is room for it", file=err)
        return EXIT_OUTSIDE
    return 0
