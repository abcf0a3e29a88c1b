"""What oneCCL's own environment script sets, where the stack has the bindings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.machine.image import release
from entrypoint.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.image import Stack

# The shell itself sets these, not the script.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL")
# Sourced by bash, for the script is one of bash; without -e, for it needs `ps` and goes on when there is none.
SOURCE = 'source "$1" >/dev/null 2>&1; exec env -0'


def find_script(stack: Stack) -> str | None:
    """Return the path of setvars.sh; the bindings are not imported, which takes seconds and prints on stdout.

    So does the line of the Hugging Face guide that sources it: with torch 2.4 a warning about GPUs comes before
    the path.
    """
    if stack.backend != "ccl":
        return None
    package = "torch_ccl" if release(stack.torch) < (1, 12) else "oneccl_bindings_for_pytorch"
    return f"{stack.site}/{package}/env/setvars.sh"


def source(script: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Run the script and return the variables that it changed."""
    import subprocess  # only stacks with oneCCL pay for it

    argv = ["bash", "--noprofile", "--norc", "-c", SOURCE, "bash", script]
    done = subprocess.run(argv, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return changes(environ, done.stdout.decode(errors="surrogateescape"))


def changes(before: Mapping[str, str], dump: str) -> dict[str, str]:
    """Return the variables of a dump of `env -0` that were not so before.

    What was set before stays, unless the script has put something in front of it, as it does in search paths.
    """
    after = dict(row.partition("=")[::2] for row in dump.split("\0") if "=" in row)
    changed = {name: value for name, value in after.items() if name not in NOISE and before.get(name) != value}
    return {name: value for name, value in changed.items() if value.endswith(before.get(name, ""))}


def take_setvars(environ: Mapping[str, str], stack: Stack) -> list[Setting]:
    """Return what oneCCL's script sets; nothing where there is none, or where it has run before."""
    script = find_script(stack)
    if script is None or environ.get("CCL_ROOT") or not os.path.isfile(script):
        return []
    sourced = source(script, without_image(environ, stack))
    return [Setting(name, value, "setvars.sh") for name, value in sourced.items()]


def without_image(environ: Mapping[str, str], stack: Stack) -> dict[str, str]:
    """Return the environment without what the image's configuration has in the place of the script."""
    return {name: value for name, value in environ.items() if stack.environment.get(name) != value}
