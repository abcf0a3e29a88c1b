"""The options of each command, and the request that they make."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn

from images import content
from images.content import EVERY, LINES, NAMES, kind_of, option_key
from images.context import Settings
from images.host.errors import UserFault, require_text
from images.oci import reference
from images.plan import user_files
from images.plan.plan import REQUESTED, Request, is_named
from images.platforms import PLATFORMS, Platform, platform_of

COMMANDS = {
    "build": "build an image (the default)",
    "plan": "say what would be built, and build nothing",
    "list": "say which versions go together",
    "lock": "fix every file by sha256, and write the lock",
    "bundle": "put a lock and all its files into one tar",
    "verify": "build an image again from the lock inside it, and compare layer by layer",
    "sbom": "print the SBOM of an image (CycloneDX)",
    "provenance": "print what an image was made of, and how (in-toto, SLSA)",
}
PURPOSE = "Build a version-pinned, reproducible image for training Hugging Face models on CPU servers."


class Parser(argparse.ArgumentParser):
    """argparse with errors in the three parts of every message."""

    def error(self, message: str) -> NoReturn:
        raise UserFault("cannot read the command line", message, f"{self.prog} --help")


def _parse_text(typed: str) -> str:
    """Read a value; raise ArgumentTypeError for one that is empty, or more than a line."""
    if not typed.strip():
        raise argparse.ArgumentTypeError(f"{typed!r} is empty; leave the option out for its default")
    if not typed.isprintable():  # a lock and a label have none either
        raise argparse.ArgumentTypeError(f"{typed!r} has characters that cannot be printed")
    return typed


def _count(typed: str) -> int:
    """Read a whole number above 0 in the digits 0 to 9; int() reads those of every script."""
    if not re.fullmatch("[1-9][0-9]{0,8}", typed):
        raise argparse.ArgumentTypeError(f"{typed!r} is not a whole number above 0")
    return int(typed)


def _parse_platform(typed: str) -> Platform:
    """Read a platform; raise ArgumentTypeError for one that no image is made for."""
    if platform := platform_of(typed):
        return platform
    if "," in typed:
        raise argparse.ArgumentTypeError(f"{typed!r} is more than one platform; only a build takes several")
    raise argparse.ArgumentTypeError(f"{typed!r} is none of {', '.join(map(str, PLATFORMS))}")


def _platforms(typed: str) -> tuple[Platform, ...]:
    """Read platforms separated by commas, each once, into one order."""
    platforms = [_parse_platform(name) for name in typed.split(",")]
    if twice := next((name for name in platforms if platforms.count(name) > 1), None):
        raise argparse.ArgumentTypeError(f"{typed!r} has {twice} twice")
    return tuple(sorted(platforms, key=PLATFORMS.index))


def _split_names(typed: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    return tuple(map(_parse_text, typed.split(",")))


def _row(commands: str, option: str, metavar: str | None, text: str, **settings: Any) -> tuple[set[str], str, Any]:
    """Return a row of OPTIONS; without an `action` or `choices` its value is a text that is not empty."""
    if metavar:
        settings = {"type": _parse_text, "metavar": metavar, **settings}
    return set(commands.split()), option, {"help": text, **settings}


def _of_field(one: dataclasses.Field[Any], default: object = None) -> tuple[set[str], str, Any]:
    """Return the row of an option that is declared as a field; where nothing is typed its value is the default."""
    rest, kind = one.metadata, KINDS.get(kind_of(one), {})
    settings = {"default": default, **kind, **({"choices": rest["choices"]} if rest["choices"] else {})}
    return _row(rest["commands"], f"--{option_key(one.name)}", rest["metavar"], rest["help"], **settings)


EITHER = " or ".join(map(str, PLATFORMS))
BOTH = argparse.BooleanOptionalAction
# What argparse is told of an option that is declared as a field, by its kind.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "bool": {"action": BOTH}, "int": {"type": _count}, LINES: {"action": "append"}, NAMES: {"type": _split_names},
}  # fmt: skip
# The commands, the option, and what it takes; a command that has no such option sees its default.
OPTIONS = (
    _row("verify sbom provenance", "image", "IMAGE|ARCHIVE",
         "in an engine here, an archive, a layout or a registry; docker://NAME: only in the registry"),
    _row("plan lock bundle list verify sbom provenance", "--platform", "OS/ARCHITECTURE",
         f"what the image is for: {EITHER} (default: the first; of an image, what it is)", type=_parse_platform),
    _row("build", "--platform", "OS/ARCHITECTURE[,...]",
         f"what the image is for: {EITHER} (default: the first); both make one index", type=_platforms),
    *(_of_field(one, one.default) for one in REQUESTED),
    _row(EVERY, "--tag", "NAME:TAG",
         "name of the image, more than once for more names (default: multinode:torchX-transformersY)",
         action="append", default=[]),
    _row(EVERY, "--requirements", "FILE",
         "packages of your own, more than once for more: a requirements file, or pyproject.toml[GROUP,...]",
         action="append", default=[]),
    _row(EVERY, "--package", "NAME==VERSION", "a package of your own, more than once for more", action="append",
         default=[]),
    _row(f"{EVERY} verify", "--script", "FILE", "a file of your own, more than once for more: it goes into /workspace",
         action="append", default=[]),
    _row(f"{EVERY} verify", "--workdir", "DIR",
         "a directory whose files go into /workspace, but for those that its .dockerignore names"),
    *map(_of_field, content.FIELDS),  # None: not typed
    *(_of_field(one, one.default) for one in fields(Settings)),
    _row("build bundle verify", "--lock", "FILE", "use exactly the files of this lock"),
    _row("build bundle verify", "--offline", "BUNDLE", "fetch nothing; take the files from a bundle", nargs="?",
         const=False),
    _row("build", "--output", "FILE|DIR/", "write an archive, or an OCI layout where it ends in /"),
    _row("lock", "--output", "FILE", "write the lock there instead of on stdout"),
    _row("bundle", "--output", "FILE.tar", "where the bundle goes", required=True),
    _row("build", "--push", "HOST/NAME:TAG", "push it to a registry", action="append", default=[]),
    _row("build", "--load", None, "load it into an engine (default: if one answers)", action=BOTH),
    _row("build plan list bundle verify", "--json", None, "print one JSON object on stdout, all else on stderr",
         action="store_true"),
)  # fmt: skip


def parser(command: str | None = None) -> Parser:
    """Return the parser of a command; None is what is typed without one, which builds."""
    if command is None:
        commands = "\n".join(f"  build.py {name:<10} {text}" for name, text in COMMANDS.items())
        shape = argparse.RawDescriptionHelpFormatter
        built = Parser("build.py", None, PURPOSE, f"commands:\n{commands}", formatter_class=shape, allow_abbrev=False)
    else:
        built = Parser(prog=f"build.py {command}", description=COMMANDS[command], allow_abbrev=False)
    for commands_, option, settings in OPTIONS:
        if (command or "build") in commands_:
            built.add_argument(option, **settings)
    return built


def parse_words(command: str | None, words: Sequence[str]) -> argparse.Namespace:
    """Read the words after a command.

    Raises UserFault for what the command does not take.
    """
    built = parser(command)
    for word in words:
        require_text(word, word)
        if word.startswith("--") and word.endswith("=--"):  # argparse takes that for no value, and goes on without
            built.error(f"argument {word[:-3]}: '--' is no value")
    return built.parse_args(words, argparse.Namespace(**_defaults()))


def _defaults() -> Mapping[str, Any]:
    """Return the value of every option that is not typed, for all commands."""
    by_name = {option.lstrip("-").replace("-", "_"): settings for _, option, settings in OPTIONS}
    return {name: settings.get("default", False if settings.get("action") == "store_true" else None)
            for name, settings in by_name.items()}  # fmt: skip


def read_request(options: argparse.Namespace) -> Request:
    """Return what was asked for.

    Raises UserFault when the base or a name of the image cannot be one, or requirements or files cannot be read.
    """
    from images.plan import requirements  # --help does without

    tag = next(iter(read_names(options)), None)
    if not is_named(options.base):
        reference.parse_reference(options.base)
    typed = {one.name: getattr(options, one.name) for one in REQUESTED}
    chosen = content.read_typed(vars(options))
    wanted = requirements.read_requirements(options.requirements, options.package)
    files = user_files.read_user_files(options.script, options.workdir)
    notes = (*_read_torch(typed), *wanted.notes)
    return Request(
        platform=options.platform, tag=tag, content=chosen, user_packages=wanted.lines, user_files=files, notes=notes,
        **typed,
    )  # fmt: skip


def _read_torch(typed: dict[str, Any]) -> Iterator[str]:
    """Take of torch the release, whichever build of it was typed; yield a note where that is one for a GPU."""
    from images.plan import packages

    if torch := typed["torch"]:
        typed["torch"] = packages.public(torch)
        if packages.is_build(torch):
            yield f"of torch {torch} the same release is taken for CPUs"


def read_requests(options: argparse.Namespace) -> list[Request]:
    """Return what was asked for of a build, for each platform.

    Raises UserFault as `read_request` does.
    """
    one = read_request(argparse.Namespace(**{**vars(options), "platform": None}))
    platforms: tuple[Platform, ...] = options.platform or ()
    of_index = platforms if len(platforms) > 1 else ()
    return [replace(one, platform=platform, platforms=of_index) for platform in platforms or (None,)]


def read_names(options: argparse.Namespace) -> list[str]:
    """Return the names that the image is to have.

    Raises UserFault when one is no name.
    """
    return [reference.parse_tag(text) for text in options.tag]
