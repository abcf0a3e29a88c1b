"""Compile the modules of one wheel to the same bytes in every process; run by a base's interpreter before Python 3.11.

Arguments: the path of compile_wheel.py, and its own. PYTHONHASHSEED settles the order of most sets. It is not a part of
compile_wheel.py, where its names would change what later releases write: see `settled`.
"""

import sys

if __name__ == "__main__":
    del sys.path[0]  # the directory of this file: what lies in it is nobody's module

import marshal
import runpy
import zipfile
from types import CodeType

HEADER = 16  # bytes (PEP 552)
FIELDS = [name for name in dir(CodeType) if name.startswith("co_")]


def settle(out: str) -> None:
    """Write an archive of bytecode anew, as every process writes it; modules that no two write alike are left out."""
    with zipfile.ZipFile(out) as made:
        files = {name: made.read(name) for name in made.namelist()}
    with zipfile.ZipFile(out, "w") as target:
        for name, data in files.items():
            body = settled(marshal.loads(data[HEADER:]))
            if body:
                target.writestr(zipfile.ZipInfo(name), data[:HEADER] + body)


def settled(code: CodeType) -> bytes:
    """Return a code object as bytes; none where a set is in the order of addresses, as the hash of None may be.

    marshal writes a mark at what the process holds in more than one place, such as a cache. So `found` holds all of it:
    everything has the mark then.
    """
    found: list[object] = [code]
    for each in found:
        if isinstance(each, CodeType):
            found += [getattr(each, name) for name in FIELDS]
        elif isinstance(each, (tuple, frozenset)):
            found += each
    varies = any(isinstance(each, frozenset) and not all(map(_is_settled, each)) for each in found)
    return b"" if varies else marshal.dumps(code)


def _is_settled(constant: object) -> bool:
    """Return whether a constant has the same hash in every process with the same seed; what is not itself is NaN."""
    if isinstance(constant, tuple):
        return all(map(_is_settled, constant))
    return isinstance(constant, (int, float, complex, str, bytes)) and constant == constant


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    settle(sys.argv[2])
