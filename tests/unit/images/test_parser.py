"""What is said of a command line that cannot be read."""

from __future__ import annotations

import pytest

from images.host.errors import UserFault
from images.parser import Parser


def test_an_error_has_three_parts() -> None:
    parser = Parser(prog="build.py list")

    with pytest.raises(UserFault, match="cannot read the command line: unrecognized arguments: --no") as caught:
        parser.parse_args(["--no"])
    assert (caught.value.remedy, caught.value.exit_code) == ("build.py list --help", 2)
