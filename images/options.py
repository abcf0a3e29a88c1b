"""The options of each command, and the request that they make."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from images.host.errors import require_text
from images.oci import reference
from images.parser import Parser

if TYPE_CHECKING:
    from images.model import Request

COMMANDS = {
    "build": "build an image (the default)",
    "plan": "say what would be built, and build nothing",
    "list": "say which versions go together",
    "lock": "fix every file by sha256, and write the lock",
    "bundle": "put a lock and all its files into one directory or .tar",
    "verify": "build an image again from the lock inside it, and compare layer by layer",
    "sbom": "print the SBOM of an image (CycloneDX)",
}
JOBS = min(2, os.cpu_count() or 1)  # each layer takes two threads to compress, and memory of its own
PURPOSE = "Build a version-pinned, reproducible image for training Hugging Face models on CPU servers."


def parser(command: str | None = None) -> Parser:
    """Return the parser of a command; None is what is typed without one, which builds."""
    made = _without_command() if command is None else _PARSERS[command](command)
    if command not in ("lock", "sbom"):  # what they print is a document
        made.add_argument("--json", action="store_true", help="print one JSON object on stdout, all else on stderr")
    return made


def _without_command() -> Parser:
    commands = "\n".join(f"  build.py {name:<7} {text}" for name, text in COMMANDS.items())
    return Parser(
        prog="build.py", description=PURPOSE, allow_abbrev=False, parents=_all(),
        epilog=f"commands:\n{commands}", formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip


def _all() -> list[argparse.ArgumentParser]:
    """Return the options of a build."""
    return [_request(), _parts(), _mirror(), _result(), _effort()]


def _command_parser(command: str, *parents: argparse.ArgumentParser) -> Parser:
    return Parser(prog=f"build.py {command}", description=COMMANDS[command], allow_abbrev=False, parents=list(parents))


def _list_parser(command: str) -> Parser:
    made = _command_parser(command)
    made.add_argument("--markdown", action="store_true", help="print the table of docs/versions.md")
    return made


def _lock_parser(command: str) -> Parser:
    made = _command_parser(command, _request(), _mirror())
    made.add_argument("--output", type=_place, metavar="FILE", help="write the lock there instead of on stdout")
    return made


def _bundle_parser(command: str) -> Parser:
    made = _command_parser(command, _request(), _parts(), _mirror(), _effort())
    made.add_argument("--output", type=_place, metavar="DIR|FILE.tar", required=True, help="where the bundle goes")
    return made


def _image_parser(command: str) -> Parser:
    made = _command_parser(command, _mirror(), *([_parts(), _copies(), _effort()] if command == "verify" else []))
    made.add_argument(
        "image", type=_text, metavar="IMAGE|ARCHIVE",
        help="in an engine here, in a file, a layout or a registry (docker://NAME: there)",
    )  # fmt: skip
    return made


_PARSERS: Mapping[str, Callable[[str], Parser]] = {
    "build": lambda command: _command_parser(command, *_all()),
    "plan": lambda command: _command_parser(command, _request()),
    "list": _list_parser,
    "lock": _lock_parser,
    "bundle": _bundle_parser,
    "verify": _image_parser,
    "sbom": _image_parser,
}


def _request() -> argparse.ArgumentParser:
    """Return the options for what is built."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--torch", type=_text, metavar="VERSION", help="release of PyTorch")
    made.add_argument("--transformers", type=_text, metavar="VERSION", help="release of transformers")
    made.add_argument("--python", type=_text, metavar="3.N", help="Python of the image (default: the base's)")
    made.add_argument("--base", metavar="debian|intel|IMAGE", help="the base image (default: Intel's, if there is one)")
    made.add_argument(
        "--backend", choices=("ccl", "gloo"), help="backend of distributed training (default: ccl where it can be)"
    )
    made.add_argument(
        "--as-of", type=_text, metavar="YYYY-MM-DD", help="resolve as of this day (default: that of the releases)"
    )
    made.add_argument(
        "--tasks", type=_names, metavar="A,B", help="examples whose requirements go in (default: all of text)"
    )
    made.add_argument(
        "--examples", type=_text, metavar="PATH|URL|none", help="example scripts (default: the release's archive)"
    )
    made.add_argument("--wheelhouse", type=_text, metavar="DIR", help="a directory of wheels, before equal releases")
    made.add_argument(
        "--bindings-index", type=_text, metavar="URL", help="where the oneCCL bindings are (default: Intel's index)"
    )
    made.add_argument(
        "--tag", type=_text, metavar="NAME:TAG", action="append", default=[],
        help="name of the image, more than once for more names (default: multinode:torchX-transformersY)",
    )  # fmt: skip
    made.add_argument(
        "--trim", action=argparse.BooleanOptionalAction, help="leave out tests, GPU parts and the like (default)"
    )
    made.add_argument(
        "--bytecode", action=argparse.BooleanOptionalAction, help="compile the modules of Python (default)"
    )
    return made


def _parts() -> argparse.ArgumentParser:
    """Return the options for where the files come from."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--lock", type=_text, metavar="FILE", help="use exactly the files of this lock")
    made.add_argument(
        "--offline", type=_text, metavar="BUNDLE", nargs="?", const=False,
        help="fetch nothing; take the files from a bundle",
    )  # fmt: skip
    return made


def _copies() -> argparse.ArgumentParser:
    """Return the options for where the files of an image's own lock are, if not where they come from."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--base", type=_text, metavar="IMAGE", help="a layout or an archive with the base of the lock")
    made.add_argument("--examples", type=_text, metavar="PATH|URL", help="example scripts of the lock")
    made.add_argument("--wheelhouse", type=_text, metavar="DIR", help="a directory with wheels and .debs of the lock")
    made.add_argument("--bindings-index", type=_text, metavar="URL", help="where the oneCCL bindings are")
    return made


def _mirror() -> argparse.ArgumentParser:
    """Return the options for how registries are reached."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--registry-mirror", type=_text, metavar="HOST[/PATH]", help="registry to ask before any other")
    return made


def _result() -> argparse.ArgumentParser:
    """Return the options for where the image goes."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument(
        "--output", type=_place, metavar="FILE|DIR/", help="write an archive, or an OCI layout where it ends in /"
    )
    made.add_argument(
        "--compression",
        choices=("zstd", "gzip", "none"),
        default="zstd",
        help="of the layers of a layout, and of what is pushed (none: zstd); Docker before 23.0 needs gzip",
    )
    made.add_argument(
        "--push", type=_text, metavar="HOST/NAME:TAG", action="append", default=[], help="push it to a registry"
    )
    made.add_argument(
        "--load", action=argparse.BooleanOptionalAction, help="load it into Docker or podman (default: if found)"
    )
    return made


def _effort() -> argparse.ArgumentParser:
    """Return the options for how much of the machine is used."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--jobs", type=_count, metavar="N", default=JOBS, help="layers written at once")
    return made


def _text(typed: str) -> str:
    """Read a value; raise ArgumentTypeError for one that is empty or cannot be handed to a program."""
    if not typed.strip():
        raise argparse.ArgumentTypeError(f"{typed!r} is empty; leave the option out for its default")
    if "\0" in typed:
        raise argparse.ArgumentTypeError(f"{typed!r} has a null character")
    return typed


def _place(typed: str) -> str:
    """Read where something is written to; raise ArgumentTypeError for -, with which stdout is meant."""
    if typed == "-":
        raise argparse.ArgumentTypeError("'-' does not mean stdout here; ./- is a file of that name")
    return _text(typed)


def _count(typed: str) -> int:
    """Read a whole number in the digits 0 to 9; int() reads those of every script."""
    if not re.fullmatch("-?[0-9]{1,9}", typed):
        raise argparse.ArgumentTypeError(f"invalid int value: {typed!r}")
    return int(typed)


def _names(typed: str) -> str:
    """Read names separated by commas, at least one."""
    if not typed.strip(" ,"):
        raise argparse.ArgumentTypeError(f"{typed!r} has no name; leave the option out for its default")
    return _text(typed)


def parse(command: str | None, words: Sequence[str]) -> argparse.Namespace:
    """Read the words after a command.

    Raises UserFault for what the command does not take.
    """
    made = parser(command)
    for word in words:
        require_text(word, word)
        if word.startswith("--") and word.endswith("=--"):  # argparse takes that for no value, and goes on without
            made.error(f"argument {word[:-3]}: '--' is no value")
    return made.parse_args(words)


def request(options: argparse.Namespace) -> Request:
    """Return what was asked for.

    Raises UserFault when the base or a name of the image cannot be one.
    """
    from images.model import Request

    tasks = tuple(task for task in (options.tasks or "").split(",") if task)
    tag = next(iter(names(options)), None)
    if options.base not in (None, "debian", "intel") and options.base.strip():  # a blank one is the planner's matter
        reference.parse(options.base)
    same = {field.name for field in fields(Request)} - {"tasks", "tag"}
    return Request(tasks=tasks, tag=tag, **{name: getattr(options, name) for name in same})


def names(options: argparse.Namespace) -> list[str]:
    """Return the names that the image is to have.

    Raises UserFault when one is no name.
    """
    return [reference.name(text) for text in options.tag]
