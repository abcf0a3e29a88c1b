"""The last look: what is imported, and that it is done once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from images.check import import_all, import_check
from images.content import Content
from images.host.errors import UserFault, WorldFault
from images.layers import trim
from images.lock.lock import UserPackages
from images.oci.image import Image
from images.oci.layer import Layer, Written
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.support import locks
from tests.support.wheels import pack

WANTED = ("six", "torch", "six==1.17.0")


class Python:
    """An interpreter that says what it is told to, and remembers what it was asked."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, arguments: Sequence[str]) -> str | None:
        assert arguments[:3] == ["python3", "-c", Path(import_all.__file__).read_text()]
        self.asked.append((*arguments[3:],))
        return self.says


USUAL = {"torch": "1", "multinode": "2", "your files": "3"}  # the layers of an image, and what is in them


def look(store: Store, python: Python, layers: Mapping[str, str] = USUAL, env: str = "A=1") -> bool:
    config = json.dumps({"config": {"Env": [env], "Labels": {"all": str(layers)}}}).encode()
    image = Image(("a:b",), config, b"{}", tuple(Layer(*row, False) for row in rows(layers)))
    return import_check.check_imports(image, WANTED, python, store, "what to do against {}".format)


def rows(layers: Mapping[str, str]) -> list[tuple[str, Written]]:
    return [(name, Written(content, "", 0, 0)) for name, content in layers.items()]


@pytest.mark.parametrize(
    ("layers", "env", "again"),
    [
        (USUAL, "A=1", False),
        ({**USUAL, "multinode": "other documents", "your files": "another script"}, "A=1", False),
        ({**USUAL, "torch": "another"}, "A=1", True),
        ({"torch": "1", "your packages": "4", "multinode": "2"}, "A=1", True),
        (USUAL, "PYTHONPATH=/tmp", True),
    ],
)
def test_the_same_packages_are_looked_at_once(store: Store, layers: Mapping[str, str], env: str, again: bool) -> None:
    python = Python(None)
    assert look(store, python)

    assert look(store, python, layers, env) == again
    assert python.asked == [WANTED] * (1 + again)


def test_what_cannot_be_imported_is_named_each_time(store: Store) -> None:
    python = Python("six (ImportError: no)")

    for _ in range(2):
        with pytest.raises(
            WorldFault, match=r"does not import .*: six \(ImportError: no\)\n  try: what to do against six"
        ):
            look(store, python)


def test_of_many_modules_the_first_and_the_last_are_named(store: Store) -> None:
    said = "; ".join(f"m{number} (ModuleNotFoundError: No module named 'm{number}')" for number in range(500))

    with pytest.raises(WorldFault) as caught:
        look(store, Python(said))

    assert caught.value.value.startswith("m0 (") and "m499" in caught.value.value and len(caught.value.value) < 2000


def test_what_is_wanted_is_what_wheels_have_and_say_in_order(tmp_path: Path, store: Store) -> None:
    wheels = list[Wheel]()
    no_packages = ("colorama", "git", "pip", "setuptools", "pkg_resources", "_distutils_hack")
    for name, modules in (("A.b", ("c/__init__", "a_b", *no_packages)), ("six", ("six", "a_b"))):
        project = name.lower().replace(".", "_")
        metadata = f"Name: {name}\nVersion: 1.0\n\nVersion: 2\n".encode()
        files = {f"{module}.py": b"" for module in modules}
        path = pack(tmp_path, {**files, f"{project}-1.0.dist-info/METADATA": metadata}, project)
        wheels.append(Wheel(project, "1.0", f"{len(wheels):064x}", path))

    expected = ("a_b", "c", "six", "A.b==1.0", "six==1.0")
    assert [import_check.wanted_of(store, order) for order in (wheels, wheels[::-1])] == [expected] * 2


def test_what_is_excused_is_not_imported_but_has_to_be_there(tmp_path: Path, store: Store) -> None:
    """A module that another package has as well is imported."""
    parts = {"keras": ("keras", "both"), "six": ("six", "both")}
    paths = {name: pack(tmp_path, {f"{module}.py": b"" for module in has}, name) for name, has in parts.items()}
    wheels = [Wheel(name, "1.0", f"{number:064x}", path) for number, (name, path) in enumerate(paths.items())]

    assert import_check.wanted_of(store, wheels, ["keras"]) == ("both", "six", "keras==1.0", "six==1.0")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("whole", ""),
        ("halves", "halves (ValueError: no such half)"),
        ("leaves", "leaves (SystemExit: 3)"),
        ("nowhere", "nowhere (ModuleNotFoundError: No module named 'nowhere')"),
        ("whole==1.0", ""),
        ("whole==1.1", "whole (1.0 instead of 1.1)"),
        ("nowhere==1.0", "nowhere (none instead of 1.0)"),
    ],
)
def test_the_program_says_what_a_module_or_a_release_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, said: str
) -> None:
    bodies = {"whole": "", "halves": "raise ValueError('no such\\n  half')", "leaves": "raise SystemExit(3)"}
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(body)
    (tmp_path / "whole-1.0.dist-info").mkdir()
    (tmp_path / "whole-1.0.dist-info/METADATA").write_text("Name: whole\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in bodies:
        monkeypatch.delitem(sys.modules, name, raising=False)

    assert import_all.check(argument) == said


def test_what_is_excused_and_not_there_is_named_in_order() -> None:
    with pytest.raises(UserFault) as caught:
        import_check.require_excused([*"fedcbaf"], [locks.artifact("c", "1.0")])
    assert caught.value.value == "a, b, d, e, f"


def test_what_is_excused_is_in_the_image() -> None:
    import_check.require_excused(["six"], [locks.artifact("six", "1.0")])
    with pytest.raises(UserFault, match=r"no package of that name goes into the image: kears"):
        import_check.require_excused(["six", "kears"], [locks.artifact("six", "1.0")])


NO_TRIM = "--no-trim: numpy/tests/a.py is left out without it"
OTHER = "--package or --requirements with other versions"


@pytest.mark.parametrize(
    ("said", "packages", "remedy"),
    [
        ("sklearn (ModuleNotFoundError: No module named 'numpy.tests.a')", (), NO_TRIM),
        ("sklearn (ModuleNotFoundError: No module named 'numpy.tests')", ("keras",), NO_TRIM),
        ("keras (ModuleNotFoundError: No module named 'tensorflow')", (), "another --transformers or --base;"),
        ("numpy (ImportError: no); keras (ModuleNotFoundError: No module named 'tensorflow')", ("keras",),
         f"{OTHER}, or a variable that they want, --env NAME=VALUE; or, if your code does without, --no-import keras;"),
        ("numpy (ImportError: keras (no))", ("keras",), f"{OTHER};"),
        ("keras (1.0 instead of 2.0)", ("peft",), f"{OTHER};"),
    ],
)  # fmt: skip
def test_the_remedy_follows_from_what_is_said(
    tmp_path: Path, store: Store, said: str, packages: tuple[str, ...], remedy: str
) -> None:
    files = {"numpy": "numpy/tests/a.py", "keras": "keras.py"}
    paths = {name: pack(tmp_path, {file: b""}, name) for name, file in files.items()}
    wheels = [Wheel(name, "1.0", f"{number:064x}", path) for number, (name, path) in enumerate(paths.items())]
    left_out = {name: trim.trimmed_pattern(name, Content()) for name in files}
    locked = locks.lock(user_packages=UserPackages(packages, packages) if packages else None)

    assert import_check.choose_remedy(locked, wheels, left_out, store, said).startswith(remedy)
