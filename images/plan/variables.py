"""Variables of an image that the user names, as NAME=VALUE: each once, and no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

from images.host.errors import UserFault
from images.plan.user_files import AT_START
from multinode_image.printing.secrets import is_secret
from multinode_image.printing.shapes import find_kind

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What an image sets itself (layers/entrypoint_layer.py), and what keeps its programs from starting.
OF_IMAGE = (
    "ACCELERATE_USE_CPU", "HF_HOME", "HF_HUB_DISABLE_TELEMETRY", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "LANG",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PIP_CONSTRAINT", "PYTHONHOME", "PYTHONPATH",
)  # fmt: skip


def read_variables(lines: Iterable[str]) -> tuple[str, ...]:
    """Return lines in one order.

    Raises UserFault for one that is no variable, is there with another value, is the image's own, or is a secret:
    whoever may pull an image reads its variables.
    """
    values: dict[str, str] = {}
    for line in dict.fromkeys(lines):
        name, equals, value = line.partition("=")
        if not (equals and VARIABLE.fullmatch(name)):
            raise UserFault("that is not a variable", line, "--env NAME=VALUE")
        if is_secret(name, value) or find_kind(line.encode()):
            raise UserFault("a secret would be in the image", name, AT_START)
        if name in OF_IMAGE:
            raise UserFault("an image sets that variable itself", name, f"docker run -e {name}=... at the start")
        if name in values:
            raise UserFault("a variable has two values", f"{name}: {values[name]} and {value}", "one of them")
        values[name] = value
    return tuple(f"{name}={value}" for name, value in sorted(values.items()))


def parse_variables(lines: Iterable[str]) -> dict[str, str]:
    """Return the values by their names."""
    return dict(line.split("=", 1) for line in lines)
