"""Objects as YAML that people review and keep in Git: keys in their order, nothing by reference, scripts as blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from multinode_image.errors import Refusal

# What kubectl reads as a number or as true and false, and PyYAML as text: a writer quotes what it knows so.
# Sources: resolve in resolve.go of sigs.k8s.io/yaml (goyaml.v2), and ParseInt of Go's strconv with base 0.
# The first removes every `_` behind the first character, wherever it is.
FLOAT = r"[-+]?_*(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE]_*[-+]?[0-9_]+)?"
NOT_TEXT = re.compile(rf"({FLOAT}|[-+]?_*0_*[oOxXbB][0-9a-fA-F_]+|[yYnN])\Z")
# What a block holds as it is: the printable characters of YAML (1.2.2, rule 1) ...
PRINTABLE = "\t\n -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
# ... but for other breaks of lines and the byte order mark, which a reader would change, and for what turns the
# direction of writing, which is escaped so that a reviewer sees what will run.
HIDDEN = "\u2028\u2029\ufeff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
BLOCK = re.compile(f"(?:(?![{HIDDEN}])[{PRINTABLE}])+")


class Writer(yaml.SafeDumper):
    """A writer of YAML without anchors, which people would have to follow, and with every text of lines in a block.

    PyYAML itself makes none where a line ends with a blank, or has a tab or a letter that is not of ASCII.
    """

    def ignore_aliases(self, data: Any) -> bool:
        """Return that everything is written out."""
        return True

    def analyze_scalar(self, scalar: str) -> Any:
        """Return how a text may be written."""
        analysis = super().analyze_scalar(scalar)
        analysis.allow_block = BLOCK.fullmatch(scalar) is not None
        return analysis

    def determine_block_hints(self, text: str) -> str:
        """Return what stands behind `|`; a tab at the beginning is no indentation, which a reader is to be told."""
        hints = super().determine_block_hints(text)
        return f"{self.best_indent}{hints}" if text.startswith("\t") else hints


def represent_text(writer: Writer, text: str) -> yaml.ScalarNode:
    """Return a text, as a block if it has lines.

    Raise Refusal for bytes that are not UTF-8: Python escapes them, and kubectl refuses the escape.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refusal("a manifest cannot have what is not UTF-8", ascii(text), "a text in UTF-8") from error
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Writer.add_representer(str, represent_text)
Writer.add_implicit_resolver("!kubectl", NOT_TEXT, list("-+.0123456789yYnN"))


def write_yaml(objects: Sequence[dict[str, Any]]) -> str:
    """Return objects as documents of YAML; raise Refusal for what no document can have."""
    text: str = yaml.dump_all(objects, Dumper=Writer, sort_keys=False, width=10**6, allow_unicode=False)
    return text
