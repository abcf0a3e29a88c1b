"""Parts of a page that a program writes: they begin with `<!-- NAME -->` and end with `<!-- end -->`."""

from __future__ import annotations

from collections.abc import Iterable

END = "<!-- end -->"


def fill(text: str, name: str, lines: Iterable[str], page: str) -> str:
    """Return a page with the lines of one part written anew; end the program if the page has no such part.

    page: its name, for the message.
    """
    begin = f"<!-- {name} -->\n"
    before, found, rest = text.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise SystemExit(f"error: this page has no markers for a part: {page}: {name}\n  try: {begin}{END}")
    return "".join([before, begin, *(f"{line}\n" for line in lines), end, after])
