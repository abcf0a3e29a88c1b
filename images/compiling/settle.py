"""Write bytecode in the same bytes in every process; before compile_modules.py, for Python before 3.11 alone.

PYTHONHASHSEED settles the order of most sets. It is a text of its own, since its names would change what later releases
write.
"""

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
else:  # nothing is imported that may lie in the directory where this runs
    CodeType = type(compile("", "", "exec"))

HEADER = 16  # bytes (PEP 552)
FIELDS = [name for name in dir(CodeType) if name.startswith("co_")]


def settle(pyc: bytes) -> bytes:
    """Return bytecode as every process writes it; none for a module that no two write alike."""
    body = _settled(marshal.loads(pyc[HEADER:]))
    return pyc[:HEADER] + body if body else b""


def _settled(code: CodeType) -> bytes:
    """Return a code object as bytes; none where a set is in the order of addresses, as the hash of None may be.

    marshal writes a mark at what the process holds in more than one place, such as a cache. So `found` holds all of it:
    everything has the mark then.
    """
    values = [code]  # type: list[object]
    for value in values:
        if isinstance(value, CodeType):
            values += [getattr(value, name) for name in FIELDS]
        elif isinstance(value, (tuple, frozenset)):
            values += value
    varies = any(isinstance(value, frozenset) and not all(map(_is_settled, value)) for value in values)
    return b"" if varies else marshal.dumps(code)


def _is_settled(constant: object) -> bool:
    """Return whether a constant has the same hash in every process with the same seed; what is not itself is NaN."""
    if isinstance(constant, tuple):
        return all(map(_is_settled, constant))
    return isinstance(constant, (int, float, complex, str, bytes)) and constant == constant
