"""What is a secret by its form, whatever its name is: one table for what is printed, for manifests and for images.

A number that is hidden by mistake costs little, a file that is refused by mistake more: of each kind a row says what
may be one, which no log shows, and what surely is one, which no image has.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Shape(NamedTuple):
    """How secrets of a kind begin, and what follows in one that may be one, or surely is; "" for what is not asked."""

    begins: tuple[str, ...]
    maybe: str
    surely: str


# A password that stands in an example, or that a program puts there.
EXAMPLE = r"(?i:pass(?:w(?:or)?d)?|pw(?:or)?d|secret|token|key|x+|\.+)@"
TABLE = {
    "a token of Hugging Face": Shape(("hf_",), r"\w{16,}", "[A-Za-z0-9]{30}"),
    "a token of GitHub": Shape(("gh",), r"[oprsu]_\w{16,}", "[oprsu]_[A-Za-z0-9]{30}"),
    "a token of GitHub for some repositories": Shape(("github_pat_",), r"\w{16,}", r"\w{22}"),
    "a token of GitLab": Shape(("glpat-",), r"[\w-]{16,}", r"[\w-]{20}"),
    "a key of OpenAI or Anthropic": Shape(("sk-",), r"[\w-]{16,}", r"(?=[\w-]{0,60}\d)[\w-]{32}"),
    "a token of Slack": Shape(("xox",), r"[abprs]-[\w-]{10,}", r"[abprs]-[\w-]{20}"),
    "a key of AWS": Shape(("AKIA", "ASIA"), r"[0-9A-Z]{16}\b", r"[0-9A-Z]{16}\b"),
    "a secret key of AWS": Shape(
        ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey"),
        "",
        r"""["']?\s{0,9}[=:]\s{0,9}["']?[A-Za-z0-9/+]{40}""",
    ),
    "a key of Azure": Shape(("AccountKey",), "", r"\s?=\s?[A-Za-z0-9/+]{40}"),
    "a key of Google": Shape(("AIza",), r"[\w-]{35}", r"[\w-]{35}"),
    "a token of Google": Shape(("ya29.",), r"[\w-]{16,}", r"[\w-]{30}"),
    "a token of npm": Shape(("npm_",), "[A-Za-z0-9]{36,}", "[A-Za-z0-9]{36}"),
    "a token of a registry of npm": Shape(("_authToken",), "", r"""\s?=\s?["']?(?=[\w.+/=-]{0,60}\d)[\w.+/=-]{16}"""),
    "a token of PyPI": Shape(("pypi-AgE",), r"[\w-]{16,}", r"[\w-]{50}"),
    "a token in a header": Shape(("Bearer ", "bearer "), r"[\w.~+/=-]{8,}", r"(?=[\w.~+/=-]{0,60}\d)[\w.~+/=-]{24}"),
    "a JSON web token": Shape(("eyJ",), r"[\w-]{8,}(?:\.[\w-]*){0,2}", r"[\w-]{8,500}\.eyJ[\w-]{8,4000}\.[\w-]{16}"),
    "a private key": Shape(
        ("-----BEGIN ",),
        r"[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        # A line ends, in JSON as `\n`, and in a program's string by a quote.
        r"[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"""(?:(?:\s|\\{1,9}[nr]){1,40}|(?:\\[nr])?["'][\s+,\\]{0,40}["'])[\w+/=][\w+/=:, -]{15}""",
    ),
    "a private key of PuTTY": Shape(("PuTTY-User-Key-File-",), r"\d: .*", r"\d: \w"),
    "a login in an address": Shape(
        ("://",),
        "",
        rf"""([^\s/?#"'\\@:{{}}$<>]{{1,100}}):(?!\1@|{EXAMPLE})[^\s/?#"'\\@{{}}$<>*]{{3,200}}@[\w.-]""",
    ),
}
LONGEST = 6000  # letters of what is surely one, at most
# One that begins with a letter begins in no word, but behind a line's end as JSON has it.
START = r"(?:(?<!\w)|(?<=\\[nrt]))"
HEADER = "a token in a header"


def _join_maybe(*, words: bool) -> str:
    """Return what may be a secret as one expression, of the kinds that begin with a letter, or of the others."""
    rows = [row for name, row in TABLE.items() if row.maybe and name != HEADER]
    chosen = [row for row in rows if row.begins[0][0].isalpha() == words]
    return "|".join(f"(?:{'|'.join(map(re.escape, row.begins))}){row.maybe}" for row in chosen)


MAYBE = re.compile(
    rf"{START}(?:{_join_maybe(words=True)})|(?<=\b[Bb]earer ){TABLE[HEADER].maybe}|{_join_maybe(words=False)}",
    re.DOTALL,
)
SURELY = {name: re.compile(one.surely.encode()) for name, one in TABLE.items()}
STARTS = re.compile(START.encode())


def find_kind(data: bytes) -> str | None:
    """Return the kind of a secret that is surely in bytes, also in those of UTF-16 and UTF-32; None without one."""
    texts = (data, data.replace(b"\0", b"")) if b"\0" in data else (data,)
    return next((name for text in texts for name in TABLE if has_kind(text, name)), None)


def has_kind(data: bytes, name: str) -> bool:
    """Return whether bytes have a secret of a kind: to look for its letters first is fast, also in a gigabyte."""
    for begins in map(str.encode, TABLE[name].begins):
        at = data.find(begins)
        while at >= 0:
            is_start = not begins[:1].isalpha() or STARTS.match(data, at)
            if is_start and SURELY[name].match(data, at + len(begins)):
                return True
            at = data.find(begins, at + 1)
    return False
