"""TOML, read by the standard library, and on Python 3.10 by what that was made from."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
