"""How the programs are built: imports have one direction, and the entrypoint needs nothing but Python."""

from __future__ import annotations

import re
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from images.platforms import PLATFORMS
from tests.support.harness import ROOT
from tests.support.sources import read_source

# Each program, and what it takes of others. Manifests say what the entrypoint is going to do, by its own code; what is
# a secret is one in files of an image, too.
PROGRAMS: dict[str, set[str]] = {
    "images": {"multinode_image"},
    "multinode_image": set(),
    "manifests": {"multinode_image"},
    "benchmarks": {"multinode_image", "images"},
    "scripts": {"benchmarks", "multinode_image", "images", "manifests"},
}
# Parts that are libraries: they, and the modules that they stand on, import nothing else of the project.
LIBRARIES = ("images.foreign", "images.oci", "images.wheels")
PROTOCOL = {
    "images.store.blobs",  # what keeps files by their sha256
    "images.host.errors",  # a fault has three parts
    "images.host.limits",  # how much is read
    "images.host.process",  # work that is not needed any more
    "images.host.files",  # files that are whole or not there
    "images.platforms",
    "images.content",  # options of an image that show in the bytes of layers
}
# What runs in a training process has what it trains with; everything else in an image's entrypoint comes with Python.
BESIDE_TRAINING = {"datasets", "evaluate", "huggingface_hub", "nltk", "torch", "transformers"}
TRAINING = ("multinode_image/exchange", "multinode_image/hooks", "multinode_image/programs")


def list_modules(program: str) -> dict[str, Path]:
    """Return the modules of a program by their dotted names; a package is its __init__."""
    paths = [path for path in sorted((ROOT / program).rglob("*.py")) if "rootfs" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def list_packages(graph: dict[str, set[str]], depth: int) -> dict[str, set[str]]:
    """Return the same graph between the packages of a program: so many parts of each name."""
    arrows: dict[str, set[str]] = {}
    for module, others in graph.items():
        package = ".".join(module.split(".")[:depth])
        arrows.setdefault(package, set()).update({".".join(other.split(".")[:depth]) for other in others} - {package})
    return arrows


@pytest.mark.parametrize("program", PROGRAMS)
def test_imports_have_one_direction(program: str) -> None:
    """No module imports itself by a circle of others, and no package does."""
    modules = {name: path for name, path in list_modules(program).items() if name != program}
    graph = {name: (set(read_source(path).imports) & modules.keys()) - {name} for name, path in modules.items()}
    for arrows in (graph, list_packages(graph, 2), list_packages(graph, 3)):
        try:
            TopologicalSorter(arrows).prepare()
        except CycleError as error:
            pytest.fail(" -> ".join(error.args[1]))


def test_libraries_stand_on_a_small_protocol_alone() -> None:
    modules = list_modules("images")
    ahead = {name for name in modules if name.startswith(LIBRARIES)}
    reached = set[str]()
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= (
            (set(read_source(modules[name]).imports) & modules.keys())
            - reached
            - {"images", "images.host", "images.store"}
        )

    others = {name for name in reached if not name.startswith(LIBRARIES)}
    assert others <= PROTOCOL, "what a library needs comes in as an argument, or belongs to the protocol"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_do_not_import_each_other(program: str) -> None:
    others = {*PROGRAMS, "tests"} - {program} - PROGRAMS[program]
    foreign = {
        f"{name}: {imported}"
        for name, path in list_modules(program).items()
        for imported in read_source(path).imports
        if imported.split(".")[0] in others
    }
    assert foreign == set()


def test_the_entrypoint_needs_nothing_but_python() -> None:
    for path in list_modules("multinode_image").values():
        trains = any(path.is_relative_to(ROOT / place) for place in TRAINING)
        known = {"multinode_image", *sys.stdlib_module_names, *(BESIDE_TRAINING if trains else ())}
        assert {imported.split(".")[0] for imported in read_source(path).imports} <= known, path


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_others_import_has_a_name_of_its_own(program: str) -> None:
    """Programs that run beside torch are not looked at: each has names of its own, as each module has for itself."""
    modules = list_modules(program)
    imported = {name for path in modules.values() for name in read_source(path).imports}
    names = Counter(
        name
        for module, path in modules.items()
        if not {"exchange", "hooks", "programs"} & {*path.parts}
        for name in read_source(path).defines
        if f"{module}.{name}" in imported
    )

    assert {name for name, count in names.items() if count > 1} == set(), "name them by what each does"


def test_a_value_does_not_change() -> None:
    """Threads share them; what is built up step by step has no other form."""
    changing = {
        name
        for program in PROGRAMS
        for path in list_modules(program).values()
        for options, name in re.findall(r"^ *@dataclass(.*)\n *class (\w+)", path.read_text(), re.MULTILINE)
        if "frozen=True" not in options
    }
    assert changing == {"Entry", "Node", "Figures"}


def test_the_processor_is_named_in_one_module() -> None:
    names = {name for platform in PLATFORMS for name in (*platform.spellings, platform.machine)}
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in list_modules("images").values()
        if any(name in path.read_text() for name in names)
    }
    assert naming == {"images/platforms.py"}
