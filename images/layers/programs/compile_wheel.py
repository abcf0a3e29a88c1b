"""Compile the modules of one wheel; run by the base's own interpreter, standard library only.

Arguments: wheel, output (a zip of path -> bytecode), site directory in the image, source time in seconds, and the
pattern of what is left out. The header of a .pyc is that of PEP 552, checked by time, so that a later edit counts.
"""

import importlib._bootstrap_external as bootstrap
import re
import sys
import zipfile


def main(wheel: str, out: str, site: str, mtime: str, left_out: str) -> None:
    """Write the bytecode of every module that compiles."""
    skip = re.compile(left_out)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            path = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", name)
            if not path.endswith(".py") or ".data/" in path or skip.match(path):
                continue
            with source.open(name) as file:
                text = file.read(max(source.getinfo(name).file_size, 1))  # a file may unpack to more than it says
            try:
                code = compile(text, f"{site}/{path}", "exec", dont_inherit=True, optimize=0)
                made = bootstrap._code_to_timestamp_pyc(code, int(mtime), len(text))  # type: ignore[attr-defined]
            except (SyntaxError, ValueError, RecursionError):  # no MemoryError: a full machine would have other bytes
                continue
            target.writestr(zipfile.ZipInfo(path), bytes(made))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # SyntaxWarnings of others' code
    main(*sys.argv[1:])
