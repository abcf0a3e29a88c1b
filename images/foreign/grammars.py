"""Words that others wrote, by their grammars: what becomes a word on a command line, a path or a line of configuration.

A lock is held to them where it is read: a word that begins with a hyphen would be an option of uv.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

Release = Annotated[str, StringConstraints(pattern=r"\A[0-9][0-9A-Za-z.+!-]*\z", max_length=100)]
Minor = Annotated[str, StringConstraints(pattern=r"\A[0-9]{1,2}\.[0-9]{1,2}\z")]  # tags of wheels are counted up to it
Word = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9_.+-]*\z")]
Module = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
Address = Annotated[str, StringConstraints(pattern=r"\Ahttps://[^\s\x00-\x1f]+\z")]
Line = Annotated[str, StringConstraints(pattern=r"\A[^\x00-\x1f]*\z")]
Backend = Annotated[str, StringConstraints(pattern=r"\A(ccl|gloo)\z")]
