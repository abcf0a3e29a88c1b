"""What every Python of a training does at its start: its table, the files of the user's own, and signals."""

from __future__ import annotations

import ast
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from multinode_image.hooks import after_import, at_start

HERE = Path(at_start.__file__).parent


@pytest.mark.parametrize("handled", [True, False])
def test_a_warning_of_a_scheduler_means_what_sigterm_means(monkeypatch: pytest.MonkeyPatch, handled: bool) -> None:
    """Unless the script handles it."""
    handlers = {number: (print if handled else signal.SIG_DFL) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    sent: list[int] = []
    monkeypatch.setattr(signal, "getsignal", handlers.get)
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.update({number: handler}))
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    at_start.take_warnings()
    for number, handler in handlers.items():
        if handler is not print:
            handler(number, None)  # type: ignore[operator]
    assert sent == ([] if handled else [signal.SIGTERM] * 2)


@pytest.mark.parametrize("row", sorted({each for row in at_start.ROWS.values() for each in row}))
def test_what_a_row_names_is_there(row: str) -> None:
    beside, _, function = row.rpartition(".")
    parsed = ast.parse((HERE / f"{beside.replace('.', '/')}.py").read_text())
    assert function in {node.name for node in parsed.body if isinstance(node, ast.FunctionDef)}


USERS = {
    "json.py": "def after_import(module): module.seen.append('own')",
    "my.module.py": "def after_import(module): module.seen.append(module.name)",
    "fails.py": "def after_import(module): raise KeyError('why')",
    "misspelt.py": "def after_imports(module): pass",
    "broken.py": "import",
    "README": "def after_import(module): module.seen.append('no')",
}


@pytest.mark.parametrize(
    ("name", "seen", "said"),
    [
        ("json", ["own"], ""),
        ("my.module", ["my.module"], ""),
        ("fails", [], "fails.py does not work here: KeyError('why')"),
        ("misspelt", [], "misspelt.py does not work here: AttributeError"),
        ("broken", [], "broken.py does not work here: SyntaxError"),
    ],
)
def test_a_file_of_the_users_own_is_run_after_the_module_of_its_name(
    name: str, seen: list[str], said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(after_import, "FAILED", [])
    monkeypatch.delenv("RANK", raising=False)
    for file, text in USERS.items():
        (tmp_path / file).write_text(text)
    module = SimpleNamespace(seen=[], name=name)

    actions = at_start.list_actions(str(tmp_path))
    actions[name](module)

    assert module.seen == seen and (said in (err := capsys.readouterr().err)) and bool(said) == bool(err)
    assert set(actions) == {*at_start.ROWS, "json", "my.module", "fails", "misspelt", "broken"}
    assert set(at_start.list_actions(str(tmp_path / "none"))) == {*at_start.ROWS}


def test_a_file_of_the_users_own_comes_after_our_own_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(at_start, "ROWS", {"json": ("data.order.nothing",)})
    monkeypatch.setattr(at_start, "act", lambda name, _: order.append(name))
    (tmp_path / "json.py").write_text("def after_import(module): module.append('own')")

    at_start.list_actions(str(tmp_path))["json"](order)

    assert order == ["data.order.nothing", "own"]


def test_a_hook_that_fails_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(after_import, "FAILED", [])
    monkeypatch.setenv("RANK", "0")
    for _ in range(2):
        at_start.act("data.order.nothing_of_this_name", None)
    assert capsys.readouterr().err.count("order.nothing_of_this_name does not work here") == 1
