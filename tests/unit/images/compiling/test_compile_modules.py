"""What a base's own interpreter does with archives of modules, in one process."""

from __future__ import annotations

import io
import marshal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from images.compiling import compile_modules


def archive(*modules: tuple[str, bytes]) -> bytes:
    """Write modules as they come in."""
    parts = [b"%d %d\n%s%s" % (len(path), len(text), path.encode(), text) for path, text in modules]
    return b"".join([*parts, b"0 0\n"])


def test_archives_are_read_one_after_the_other() -> None:
    first, second = [("a.py", b"x = 1\n"), ("b.py", b"")], [("c.py", b"0 0\n")]
    stream = io.BytesIO(archive(*first) + archive(*second) + archive())

    assert [compile_modules.read(stream) for _ in range(4)] == [first, second, [], None]


@pytest.mark.parametrize(("settle", "kept"), [(bytes, True), (lambda _: b"", False)])
def test_bytecode_of_what_compiles_is_written(
    capfdbinary: pytest.CaptureFixture[bytes], settle: Callable[[bytes], bytes], kept: bool
) -> None:
    text = b'assert x, "said"\n'
    compile_modules.write([("a.py", text), ("b.py", b"no python"), ("c.py", b"\0"), ("d.py", text)], 7, settle)

    out = capfdbinary.readouterr().out
    read = compile_modules.read(io.BytesIO(out))
    assert read is not None and [path for path, _ in read] == ["a.py", "d.py"] * kept
    for path, pyc in read:
        assert (pyc[4:8], pyc[8:12], pyc[12:16]) == (bytes(4), b"\x07\0\0\0", len(text).to_bytes(4, "little"))
        code = marshal.loads(pyc[16:])
        assert code.co_filename == f"/{path}" and "said" in code.co_consts
    assert out.endswith(b"0 0\n")


@pytest.mark.parametrize(("status", "fails"), [(0, False), (256, True), (9, True)])
def test_each_archive_has_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, fails: bool
) -> None:
    waited, source = list[tuple[int, int]](), tmp_path / "modules"
    source.write_bytes(archive(("a.py", b"")) + archive(("b.py", b"")))
    children = iter([7, 8])

    def wait(*given: int) -> tuple[int, int]:
        waited.append(given)  # type: ignore[arg-type]
        return given[0], status

    posix = SimpleNamespace(fork=lambda: next(children), waitpid=wait, _exit=pytest.fail)
    monkeypatch.setattr(compile_modules, "posix", posix)
    if fails:
        with pytest.raises(SystemExit, match="has failed"):
            compile_modules.main("1", str(source))
    else:
        compile_modules.main("1", str(source))
    assert waited == [(7, 0), (8, 0)][: 1 if fails else 2]


def test_a_child_writes_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, written = tmp_path / "modules", list[object]()
    source.write_bytes(archive(("a.py", b"")))

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(compile_modules, "posix", SimpleNamespace(fork=lambda: 0, _exit=leave))
    monkeypatch.setattr(compile_modules, "write", lambda *given: written.append(given))
    with pytest.raises(SystemExit) as ended:
        compile_modules.main("12", str(source))
    assert ended.value.code == 0 and written == [([("a.py", b"")], 12, bytes)]
