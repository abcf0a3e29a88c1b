"""What of a page is made of sources: the lines between a line `<!-- made: NAME -->` and the next `<!-- end -->`."""

from __future__ import annotations

import re

PART = re.compile(r"(?m)^(?P<begin><!-- made: (?P<name>.+) -->\n)(?:(?!<!-- made: ).*\n)*?(?P<end><!-- end -->)$")


def written(text: str) -> str:
    """Return a page as it was written, with empty lines where something is made."""
    return PART.sub(lambda part: "\n" * part[0].count("\n"), text)
