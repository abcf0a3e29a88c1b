"""TOML, read by the standard library, and on Python 3.10 by what that was made from."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Many keys in a row, as in a.b.c.d: readers of TOML need memory by the square of their number.
_KEY = r"""\.[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
DEEP = re.compile(rf"{_KEY}(?:[ \t]*{_KEY}){{31}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML, which others may have written; some editors begin a file with a mark (BOM).

    Raises ValueError for what is no TOML, or is nested too deep to be read.
    """
    try:
        if DEEP.search(text):
            raise ValueError("it is nested too deep")
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
