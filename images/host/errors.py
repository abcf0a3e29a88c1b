"""The two kinds of failure, and the three parts of their message."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Fault(Exception):
    """A failure that the user can read: the fact, the value that caused it, what to type instead."""

    exit_code = 1

    def __init__(self, fact: str, value: object, remedy: str) -> None:
        super().__init__(f"{fact}: {value}")
        self.fact, self.value, self.remedy = fact, str(value), remedy

    def __str__(self) -> str:
        return f"error: {self.fact}: {self.value}\n  try: {self.remedy}"


class UserFault(Fault):
    """A mistake that the user can correct by typing something else; exit code 2."""

    exit_code = 2


class WorldFault(Fault):
    """A failure of the world outside: network, disk, engine; exit code 1."""


class Damaged(WorldFault):
    """A file of the store was found damaged and removed: the same command makes it or fetches it again."""

    def __init__(self, path: object) -> None:
        super().__init__("a file of the cache was damaged, and is removed", path, "the same command again")


class Parser(argparse.ArgumentParser):
    """argparse with errors in three parts."""

    def error(self, message: str) -> NoReturn:
        raise UserFault("cannot read the command line", message, f"{self.prog} --help")
