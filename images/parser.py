"""Command lines whose errors have the three parts of every message."""

from __future__ import annotations

import argparse
from typing import NoReturn

from images.host.errors import UserFault


class Parser(argparse.ArgumentParser):
    """argparse with errors in three parts."""

    def error(self, message: str) -> NoReturn:
        raise UserFault("cannot read the command line", message, f"{self.prog} --help")
