"""Compile modules as they come in, and write each as its .pyc; run by a base's own interpreter, by `python -c`.

Arguments: source time in seconds, and the file to read, empty for standard input. An entry is a line with two sizes,
that of a path and that of its content, and both; sizes of zero end an archive. Each archive is compiled by a process of
its own that knows nothing of the others: marshal marks names that a process has in more than one place, so that what it
did before would show. For the same reason nothing is imported that is not there anyway. The header of a .pyc is that of
PEP 552, checked by time, so that a later edit counts.
"""

import _frozen_importlib_external as bootstrap
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

END = b"0 0\n"


def read(stream: "BinaryIO") -> "list[tuple[str, bytes]] | None":
    """Return the modules of the next archive; None where there is no other."""
    modules = []  # type: list[tuple[str, bytes]]
    for line in iter(stream.readline, b""):
        path, text = map(int, line.split())
        if not path:
            return modules
        modules.append((stream.read(path).decode(), stream.read(text)))
    return None


def write(modules: "list[tuple[str, bytes]]", mtime: int, settle: "Callable[[bytes], bytes]") -> None:
    """Write the bytecode of every module that compiles."""
    with open(1, "wb", closefd=False) as target:
        for path, text in modules:
            try:
                code = compile(text, f"/{path}", "exec", dont_inherit=True, optimize=0)
                pyc = bootstrap._code_to_timestamp_pyc(code, mtime, len(text))  # type: ignore[attr-defined]
            except (SyntaxError, ValueError, RecursionError):  # no MemoryError: a full machine would have other bytes
                continue
            if data := settle(bytes(pyc)):
                name = path.encode()
                target.write(b"%d %d\n" % (len(name), len(data)) + name + data)
        target.write(END)


def main(mtime: str, source: str) -> None:
    """Compile one archive after the other."""
    settle = globals().get("settle", bytes)  # for releases before 3.11 it stands in front of this text
    with open(source or 0, "rb") as stream:  # noqa: PTH123 (without an import)
        while (modules := read(stream)) is not None:
            if not (child := posix.fork()):
                write(modules, int(mtime), settle)
                posix._exit(0)
            if posix.waitpid(child, 0)[1]:
                sys.exit("the process that compiles has failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
