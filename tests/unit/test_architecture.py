"""How the programs are built, over their syntax trees: directions, circles, sizes, private names, other packages."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from scripts.architecture import PAGE, fill
from scripts.pages.imports import ROOT, Module, find_modules, list_arrows, list_imports, read_program
from scripts.pages.layers import FLOWS, LAYERS

PROGRAMS = tuple(LAYERS)
# Modules in a package, and lines in a module.
MOST_MODULES, MOST_LINES = 9, 250
# What runs in a training process has what it trains with; everything else in an image's entrypoint comes with Python.
BESIDE_TRAINING = {"entrypoint/jobs": {"datasets", "evaluate", "huggingface_hub", "nltk", "torch", "transformers"}}
# What GNU tar writes for mmdebstrap is read here; the layer that is made of it is read again as one of others.
READS_OWN_TAR = {"images/base/debian.py"}
# What holds the modules that have no unit test of their own.
MEASURES = "measures on a machine with an engine; what it calls has tests"
WITHOUT_UNIT_TEST = {
    "benchmarks/build/against.py": MEASURES,
    "benchmarks/build/alone.py": MEASURES,
    "benchmarks/build/measure.py": MEASURES,
    "benchmarks/image/measure.py": MEASURES,
    "benchmarks/start/measure.py": MEASURES,
    "benchmarks/train/oneccl.py": MEASURES,
    "benchmarks/train/steps.py": "imports torch, which the tests of a unit have not; a benchmark runs it",
    "entrypoint/jobs/smoke.py": "imports torch; tests/image runs it",
    "entrypoint/jobs/smoke_training.py": "imports torch; tests/image runs it",
    "scripts/pages/layers.py": "data, held by this module",
    "scripts/versions/stand_ins.py": "what it writes is resolved by tests/integration/test_resolvable.py",
}
# What a program takes of others. Manifests say what the entrypoint is going to do, by its own code.
TAKES = {
    "manifests": {"entrypoint"},
    "benchmarks": {"entrypoint", "images", "scripts"},
    "scripts": {"images", "manifests"},
}
FILES = [path for program in PROGRAMS for path in find_modules(program).values()]


def questions() -> list[tuple[str, list[str]]]:
    """List the rows of the page's table of questions, with the files that each of them points at."""
    lines = PAGE.read_text().partition("| question |")[2].partition("\n## ")[0].splitlines()[2:]
    return [(line.split("|")[1].strip(), re.findall(r"\]\(\.\./([^)]+)\)", line)) for line in lines if line]


def level(program: str, package: str) -> int:
    """Return the row of a package in the table of layers."""
    return next(number for number, layer in enumerate(LAYERS[program]) if package in layer)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_package_has_a_layer(program: str) -> None:
    layered = [each for layer in LAYERS[program] for each in layer]
    assert sorted(layered) == sorted({module.package for module in read_program(program)})


@pytest.mark.parametrize("program", PROGRAMS)
def test_imports_have_one_direction(program: str) -> None:
    def is_wrong(module: Module, other: str) -> bool:
        package = other.split(".")[0]
        return package != module.package and level(program, package) > level(program, module.package)

    wrong = [
        f"{each.name} -> {other}" for each in read_program(program) for other in each.imports if is_wrong(each, other)
    ]
    assert wrong == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_there_is_no_circle(program: str) -> None:
    modules = read_program(program)
    for graph in ({module.name: module.imports for module in modules}, list_arrows(modules)):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(" -> ".join(error.args[1]))


def test_packages_are_small() -> None:
    sizes = Counter(name(path.parent) for path in FILES)
    assert {each: size for each, size in sizes.items() if size > MOST_MODULES} == {}


def test_modules_are_short() -> None:
    lines = {name(path): len(path.read_text().splitlines()) for path in FILES}
    assert {each: count for each, count in lines.items() if count > MOST_LINES} == {}


def test_every_module_has_its_unit_test_or_a_reason() -> None:
    tests = {path: f"tests/unit/{name(path.parent)}/test_{path.stem.strip('_')}.py" for path in FILES}
    assert {name(path) for path, test in tests.items() if not (ROOT / test).is_file()} == WITHOUT_UNIT_TEST.keys()


def is_private(word: str) -> bool:
    return word.startswith("_") and not word.startswith("__")


def private_names(path: Path, ours: set[str]) -> list[str]:
    """List the private names that a module takes from another of ours: imported, or as an attribute of a module."""
    tree = ast.parse(path.read_text())
    found, modules = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PROGRAMS:
            found += [alias.name for alias in node.names if is_private(alias.name)]
            modules |= {alias.asname or alias.name for alias in node.names if f"{node.module}.{alias.name}" in ours}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found += [f"{node.value.id}.{node.attr}"] if is_private(node.attr) else []
    return found


@pytest.mark.parametrize("path", FILES, ids=name)
def test_private_names_stay_in_their_module(path: Path) -> None:
    ours = {f"{program}.{each}" for program in PROGRAMS for each in find_modules(program)}
    assert private_names(path, ours) == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_programs_do_not_import_each_other(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    others = {*PROGRAMS, "tests"} - {own} - TAKES.get(own, set())
    assert [each for each in list_imports(path) if each.split(".")[0] in others] == []


@pytest.mark.parametrize("path", find_modules("entrypoint").values(), ids=name)
def test_the_entrypoint_needs_nothing_but_python(path: Path) -> None:
    known = {"entrypoint", *sys.stdlib_module_names, *BESIDE_TRAINING.get(name(path.parent), ())}
    assert {each.split(".")[0] for each in list_imports(path)} <= known


def opens_tar_to_read(node: ast.AST) -> bool:
    """Return whether a call opens a tar by `tarfile` in another mode than for writing."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("tarfile.open", "tarfile.TarFile"):
        return False
    modes = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return not any(isinstance(mode, ast.Constant) and str(mode.value).startswith("w") for mode in modes)


def test_tars_of_others_are_opened_in_one_place() -> None:
    found = {
        name(path)
        for path in find_modules("images").values()
        if any(map(opens_tar_to_read, ast.walk(ast.parse(path.read_text()))))
    }
    assert found - READS_OWN_TAR == {"images/foreign/tars.py"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_is_as_the_script_writes_it(program: str) -> None:
    text = PAGE.read_text()
    assert fill(text, [program]) == text, "scripts/architecture.py --write writes it anew"


@pytest.mark.parametrize("program", FLOWS)
def test_every_step_of_a_flow_is_a_module(program: str) -> None:
    steps = {step for start, end, _ in FLOWS[program] for step in (start, end)}
    assert steps - find_modules(program).keys() <= {"exec"}


@pytest.mark.parametrize(("question", "files"), questions())
def test_a_question_is_answered_by_one_module(question: str, files: list[str]) -> None:
    assert question.endswith("?")
    assert len(files) == 1 and (ROOT / files[0]).is_file()


@pytest.mark.parametrize("program", FLOWS)
def test_every_package_answers_a_question(program: str) -> None:
    packages = {f"{program}/{module.package}" for module in read_program(program) if "." in module.name}
    answered = {"/".join(file.split("/")[:2]) for _, files in questions() for file in files}
    assert packages - answered == set()
