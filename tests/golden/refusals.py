"""What is said of requests that cannot be built: exit code and stderr."""

from __future__ import annotations

import shlex

from tests.golden import refused_builds
from tests.golden.command import directory, run
from tests.golden.data import as_json

# What is typed behind `build.py`. None of these needs a network, an engine or another program, and none has a text by
# argparse that differs between releases of Python (those of `choices` do).
REFUSALS = {
    "plan": (
        "plan --torch 2.99.0",
        "plan --torch 0.1 --base example.org/own:1 --python 3.11",
        "plan --transformers 4.99.0",
        "plan --torch two",
        "plan --torch 9.9 --transformers nine --as-of yesterday --tasks nonsense --python 3",
        "plan --torch 1.10.0 --transformers 5.23.0 --base debian --backend ccl --as-of 2020-01-01",
        "plan --torch 1.10.0",
        "plan --torch 2.13.0 --backend ccl",
        "plan --torch 2.13.0 --base intel",
        "plan --torch 2.4.0 --transformers 4.46.0 --base debian --python 3.12",
        "plan --torch 2.4.0 --transformers 4.46.0 --base example.org/own:1 --python 3.12 --backend ccl",
        "plan --as-of 2020-01-01",
        "plan --as-of 2026-02-30",
        "plan --tasks text-clasification",
        "plan --tasks nonsense",
        "plan --base example.org/own:1",
        "plan --base ' '",
        "plan --python 4",
        "plan --platform linux/riscv64",
        "plan --platform linux/arm64 --base intel",
        "plan --platform linux/arm64 --torch 2.4.0 --transformers 4.46.0 --backend ccl",
    ),
    "command-line": (
        "plan --output x",
        "plan --tor 2.13.0",
        "plans",
        "list --torch 2.4.0",
        "bundle --offline",
        "--no-load --jobs 0",
        "--no-load --jobs many",
        "--load --offline",
        "--no-load --platform linux/amd64,linux/riscv64",
        "--no-load --platform linux/amd64,amd64",
        "--no-load --platform linux/amd64,linux/arm64",
        "--no-load --platform linux/amd64,linux/arm64 --torch 2.4.0 --transformers 4.46.0 --base intel",
        "--no-load --platform linux/amd64,linux/arm64 --offline",
        "--no-load --platform linux/amd64,linux/arm64 --lock missing",
        "--no-load --platform linux/amd64,linux/arm64 --output image.tar",
        "--no-load --offline",
        "sbom",
    ),
    "places": (
        "--no-load --offline --lock missing",
        "--no-load --offline --lock text",
        "--no-load --offline missing",
        "--no-load --offline text",
        "--no-load --offline directory",
        "--no-load --offline directory --lock text",
        "verify oci: --offline",
        "verify oci:missing --offline",
        "verify oci:directory --offline",
        "verify archive:text --offline",
        "verify Capital/Name:1 --offline",
        "verify example.org/name:-tag --offline",
        "verify example.org/name@sha256:short --offline",
    ),
}
PRESENT = {"text": b"a text, and nothing else\n", "directory/text": b"another text\n"}


def refused(typed: str) -> dict[str, object]:
    """Return what is said of a command: exit code, and the lines on stderr.

    Raises AssertionError when something is printed on stdout.
    """
    with directory(PRESENT):
        said = run(shlex.split(typed))
    assert said.out == "", said
    return {"exit code": said.code, "stderr": said.err.splitlines()}


def produce() -> dict[str, str]:
    """Return the golden data: name of the file -> text."""
    groups = {name: {f"build.py {words}": refused(words) for words in typed} for name, typed in REFUSALS.items()}
    return {f"{name}.json": as_json(group) for name, group in {**groups, **refused_builds.produce()}.items()}
