"""The last look: what is imported, and that it is done once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from images.check import import_check
from images.host.errors import WorldFault
from images.host.store import Store
from images.layers import entrypoint_layer
from images.model import Image, Layer, Wheel, Written
from tests.support.wheels import pack

PARTS = tuple(Layer(name, Written(name, name, 1, 1), reused=False) for name in ("base", "torch", "multinode"))


class Python:
    """An interpreter that says what it is told to, and remembers what it was asked."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> str | None:
        self.asked.append(list(arguments[3:]))
        return self.says


def look(
    store: Store, python: Python, parts: tuple[Layer, ...] = PARTS, settings: Mapping[str, object] | None = None
) -> bool:
    wanted = import_check.Wanted(["six", "torch"], ["six==1.17.0 six"])
    image = Image(("a:b",), json.dumps({"config": settings or {}}).encode(), b"{}", parts)
    return import_check.imports(image, wanted, python, store, "what to do")


def test_equal_layers_below_ours_are_looked_at_once(store: Store) -> None:
    python = Python(None)
    ours = Layer("multinode", Written("other", "other", 1, 1), reused=False)
    new = Layer("torch", Written("new", "new", 1, 1), reused=False)

    done = [look(store, python, parts) for parts in (PARTS, PARTS, (*PARTS[:2], ours), (PARTS[0], new, ours))]

    assert done == [True, False, False, True]
    assert python.asked == [["six", "torch", "six==1.17.0 six"]] * 2


@pytest.mark.parametrize(
    ("program", "again"),
    [
        ("programs/at_exit.py", True),
        ("decide.py", False),
        ("programs/smoke.py", False),
    ],
)
def test_equal_layers_are_looked_at_again_where_what_every_python_runs_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, program: str, again: bool
) -> None:
    shutil.copytree(entrypoint_layer.HERE.parent / "entrypoint", tmp_path / "entrypoint")
    monkeypatch.setattr(entrypoint_layer, "HERE", tmp_path / "images")
    look(store, Python(None))

    with (tmp_path / "entrypoint" / program).open("a") as file:
        file.write("import nothing\n")

    assert look(store, Python(None)) == again


def test_equal_layers_are_looked_at_again_where_the_lines_have_changed(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    look(store, Python(None))
    monkeypatch.setattr(entrypoint_layer, "AT_EXIT", "import nothing\n")

    assert [look(store, Python(None)) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("settings", "again"),
    [
        ({"Env": ["PYTHONPATH=/opt/co"], "User": "1000:0", "WorkingDir": "/workspace"}, True),
        ({"Env": ["A=b"], "User": "0:0", "WorkingDir": "/workspace"}, True),
        ({"Env": ["A=b"], "User": "1000:0", "WorkingDir": "/opt"}, True),
        ({"Env": ["A=b"], "User": "1000:0", "WorkingDir": "/workspace", "Labels": {"a": "b"}}, False),
    ],
)
def test_equal_layers_are_looked_at_again_where_settings_differ_that_decide_what_is_imported(
    store: Store, settings: dict[str, object], again: bool
) -> None:
    first: dict[str, object] = {"Env": ["A=b"], "User": "1000:0", "WorkingDir": "/workspace", "Labels": {}}

    assert look(store, Python(None), settings=first)
    assert look(store, Python(None), settings=settings) == again


def test_what_cannot_be_imported_is_named_each_time(store: Store) -> None:
    python = Python("six (ImportError: no)")

    for _ in range(2):
        with pytest.raises(WorldFault, match=r"does not import .*: six \(ImportError: no\)\n  try: what to do"):
            look(store, python)


def test_of_many_modules_the_first_and_the_last_are_named(store: Store) -> None:
    said = "; ".join(f"m{number} (ModuleNotFoundError: No module named 'm{number}')" for number in range(500))

    with pytest.raises(WorldFault) as caught:
        look(store, Python(said))

    assert caught.value.value.startswith("m0 (") and "m499" in caught.value.value and len(caught.value.value) < 2000


@pytest.mark.parametrize(
    ("files", "wanted", "said"),
    [
        pytest.param(["site/a_b/__init__.py"], ["A.b==1 a_b"], "", id="as planned"),
        pytest.param(
            ["site/a_b/__init__.py", "ahead/a_b/__init__.py"],
            ["A.b==1 a_b"],
            "a_b (ahead/a_b/__init__.py)",
            id="source",
        ),
        pytest.param(
            ["site/a_b.py", "ahead/a_b/__init__.py"], ["A.b==1 a_b"], "a_b (ahead/a_b/__init__.py)", id="file"
        ),
        pytest.param(["site/a_b.abi3.so", "ahead/a_b.py"], ["A.b==1 a_b"], "a_b (ahead/a_b.py)", id="extension"),
        pytest.param(["site/a_b/__init__.py", "ahead/a_b/part.py"], ["A.b==1 a_b"], "", id="namespace ahead"),
        pytest.param(["site/a_b/part.py", "ahead/a_b.py"], ["A.b==1 a_b"], "", id="namespace of the package"),
        pytest.param(["ahead/a_b.py"], ["A.b==1 a_b"], "", id="installed in another way"),
        pytest.param(["site/a_b.py", "ahead/a_b.py"], ["A.b==1"], "", id="module of no planned package"),
        pytest.param(["site/a_b.py", "ahead/a_b.py"], ["A.b==1 a_b", "c==1 a_b"], "", id="shared with one ahead"),
        pytest.param(["site/a_b.py", "ahead/a_b.py"], ["A.b==2 a_b"], "A.b (1 instead of 2)", id="other release"),
        pytest.param(["site/a_b.py"], ["nowhere==1"], "nowhere (none instead of 1)", id="no release"),
        pytest.param([], [], "a_b (ModuleNotFoundError: No module named 'a_b')", id="no module"),
    ],
)
def test_python_says_which_modules_come_from_elsewhere(
    tmp_path: Path, files: Sequence[str], wanted: Sequence[str], said: str
) -> None:
    infos = [f"{place}-1.dist-info/METADATA" for place in ("site/A.b", "ahead/c")]
    for name in (*files, *infos):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"Name: {Path(name).parent.name.split('-')[0]}\nVersion: 1\n" * (name in infos))
    start = f"import sys; sys.path[:0] = {[str(tmp_path / 'ahead'), str(tmp_path / 'site')]}\n"

    done = subprocess.run(
        [sys.executable, "-I", "-c", start + import_check.SCRIPT, "a_b", *wanted],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr.strip().replace(f"{tmp_path}/", "")) == (int(bool(said)), said)


def test_what_is_wanted_is_what_wheels_have_and_say(tmp_path: Path, store: Store) -> None:
    metadata = "Name: A.b\nVersion: 1.0\n\nVersion: 2\n"
    files = dict.fromkeys(("c/__init__.py", "a_b.py", "tests/__init__.py", "setuptools/__init__.py"), b"")
    path = pack(tmp_path, {**files, "a_b-1.0.dist-info/METADATA": metadata.encode()}, "a_b")

    assert import_check.wanted_of(store, [Wheel("a-b", "1.0", "0" * 64, path)]) == (
        ["a_b", "c", "tests"],
        ["A.b==1.0 a_b c"],
    )


def test_what_several_wheels_have_is_wanted_once_and_in_order(tmp_path: Path, store: Store) -> None:
    wheels = []
    for name, modules in (("five", ("one", "two")), ("six", ("two", "zero"))):
        path = pack(tmp_path, {f"{module}.py": b"" for module in modules}, name)
        wheels.append(Wheel(name, "1.0", f"{len(name):064x}", path))

    expected = (["one", "two", "zero"], ["five==1.0 one two", "six==1.0 two zero"])
    assert [import_check.wanted_of(store, order) for order in (wheels, wheels[::-1])] == [expected] * 2
