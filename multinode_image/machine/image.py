"""What the image was built from: stack.json and SBOM, which the builder writes, and the packages that Python finds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import list_directory
from multinode_image.reading import parse_json

# Only there are builds for the CPU: those of a package index are for CUDA, or have no version of this name.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
REBUILD = "build the image again: python build.py"
# Every virtual environment brings its own, and no training imports them.
TOOLS = frozenset({"pip", "setuptools"})
WITHOUT_HOME = "export PYTHONNOUSERSITE=1 (Apptainer: --no-home)"
LEAVES_OUT = "PYTHONNOUSERSITE=1 leaves them out (Apptainer: --no-home)"  # an older datasets may be there on purpose
PYTHON = "pkg:pypi/"  # what the address of a package of Python begins with (package-url, types)
SEVERAL = 10  # packages that are named in one row
# What the image has from which `launch` was typed, for its ranks.
LAUNCHED = "MULTINODE_STACK"


class Stack(NamedTuple):
    """Versions and paths inside the image; site is the directory of its Python packages.

    environment: variables in the image's configuration, for programs before which nothing sources oneCCL's script.
    """

    torch: str
    transformers: str
    python: str
    backend: str
    examples: str | None
    site: str
    environment: dict[str, str] = {}  # noqa: RUF012  # nothing writes to it

    @property
    def again(self) -> str:
        """Return the command that builds an image with these releases, to which more options can be added."""
        torch = self.torch.partition("+")[0]
        return f"python build.py --torch {torch} --transformers {self.transformers} --backend {self.backend}"


def read_stack(text: str | None) -> Stack:
    """Return what stack.json says; raise Refusal if it is missing or damaged."""
    if text is None:
        raise Refusal("the image has no list of what it is made of", "no stack.json", REBUILD, EXIT_OUTSIDE)
    try:
        facts = parse_json(text)
        examples = facts["examples"]
        environment = {str(name): str(value) for name, value in facts.get("environment", {}).items()}
        words = [str(facts[name]) for name in ("torch", "transformers", "python", "backend", "site")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refusal("stack.json is damaged", repr(error), REBUILD, EXIT_OUTSIDE) from None
    torch, transformers, python, backend, site = words
    return Stack(torch, transformers, python, backend, str(examples) if examples else None, site, environment)


def name_stack(stack: Stack) -> str:
    """Return what has to be the same in the images of all nodes."""
    return f"{stack.backend}, torch {stack.torch}"


def warn_stack(stack: Stack, environ: Mapping[str, str]) -> list[str]:
    """Return a note in a rank of `launch` if this image is another: ranks of two backends wait for each other."""
    there, here = environ.get(LAUNCHED), name_stack(stack)
    if there in (None, "", here):
        return []
    return [f"this image has {here}, and that of `launch` {there}: ranks may wait in vain; start all from one image"]


def release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version: (5, 23) of `5.23.0`, (2, 13) of `2.13.0+cpu`."""
    digits = [int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit()]
    return (digits[0], digits[1]) if len(digits) == 2 else (0, 0)


def list_sites(stack: Stack, environ: Mapping[str, str]) -> list[str]:
    """List the directories in which Python looks for packages, in its order (docs.python.org, site)."""
    places = [*environ.get("PYTHONPATH", "").split(os.pathsep), find_user_site(stack, environ)]
    return [*filter(None, places), stack.site]


def find_user_site(stack: Stack, environ: Mapping[str, str]) -> str:
    """Return the directory for packages in the user's home, which may not exist; empty if Python leaves it out."""
    base = environ.get("PYTHONUSERBASE") or f"{environ.get('HOME', '')}/.local"
    return "" if environ.get("PYTHONNOUSERSITE") else f"{base}/lib/python{stack.python}/site-packages"


def list_hidden(stack: Stack, environ: Mapping[str, str]) -> list[str]:
    """List packages of the image that Python takes from the user's home, in another release."""
    at_home = read_installed([find_user_site(stack, environ)])
    if not at_home:  # the usual case, in which no other directory is read
        return []
    image = read_installed([stack.site])
    return sorted(name for name in at_home.keys() & image.keys() - TOOLS if at_home[name] != image[name])


def warn_hidden(stack: Stack, environ: Mapping[str, str]) -> list[str]:
    """Return a note on packages of the image that others in the user's home hide."""
    hidden = list_hidden(stack, environ)
    place = find_user_site(stack, environ)
    return [f"{' '.join(hidden)} of {place} hide those of the image; {LEAVES_OUT}"] if hidden else []


def read_installed(sites: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the releases of every package, by its normal name; the first directory that has a package counts."""
    installed: dict[str, tuple[str, ...]] = {}
    for site in sites:
        here: dict[str, tuple[str, ...]] = {}
        for entry in list_directory(site):
            name, dash, version = entry[: -len(".dist-info")].rpartition("-")
            if dash and entry.endswith(".dist-info"):
                here[normalize(name)] = (*here.get(normalize(name), ()), version)
        installed = {**here, **installed}
    return installed


def read_built(text: str | None) -> dict[str, str]:
    """Return the releases of the Python packages that an image was built with; text: its SBOM, of CycloneDX in JSON.

    Empty where that is missing or damaged.
    """
    try:
        parts = [part for part in parse_json(text or "")["components"] if part.get("purl", "").startswith(PYTHON)]
        return {normalize(part["name"]): str(part["version"]) for part in parts}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def is_held(have: Sequence[str], version: str) -> bool:
    """Return whether one release is installed, and is what a constraint says: 2.1.0, or 2.* for any that begins so."""
    return len(have) == 1 and (have[0] == version or (version.endswith(".*") and have[0].startswith(version[:-1])))


def describe_packages(built: Mapping[str, str], installed: Mapping[str, tuple[str, ...]]) -> str:
    """Return how many packages are as the image was built, and which somebody has added, replaced or removed since."""
    names, there = built.keys() - TOOLS, installed.keys() - TOOLS
    same = {name for name in names & there if is_held(installed[name], built[name])}
    changes = {"added": there - names, "replaced": names & there - same, "removed": names - there}
    said = [f"{len(same)} as the image was built"]
    for what, changed in changes.items():
        rows = [" ".join([name, *installed.get(name, ())]) for name in sorted(changed)]
        if rows:
            said.append(
                f"{len(rows)} {what} since: {', '.join([*rows[:SEVERAL], *(['...'] if rows[SEVERAL:] else [])])}"
            )
    return "; ".join(said)


def normalize(name: str) -> str:
    """Return a package's name as an index has it: `Scikit_Learn` is scikit-learn (packaging.python.org, Names)."""
    return re.sub("[-_.]+", "-", name.strip()).strip("-").lower()
