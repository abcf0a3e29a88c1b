"""What oneCCL's own environment script sets, where the stack has the bindings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from multinode_image.machine.image import Stack, release
from multinode_image.settings import Setting

# The shell itself sets these, not the script.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL")
# Sourced by bash, for the script is one of bash; without -e, for it needs `ps` and goes on when there is none.
SOURCE = 'source "$1" >/dev/null 2>&1; exec env -0'


def find_setvars(stack: Stack) -> str | None:
    """Return the path of setvars.sh, without the import of the bindings, which takes seconds and prints on stdout."""
    if stack.backend != "ccl":
        return None
    package = "torch_ccl" if release(stack.torch) < (1, 12) else "oneccl_bindings_for_pytorch"
    return f"{stack.site}/{package}/env/setvars.sh"


def changes(before: Mapping[str, str], dump: str) -> dict[str, str]:
    """Return the variables in a dump of `env -0` that are new, or have something in front of what was set before."""
    after = dict(row.partition("=")[::2] for row in dump.split("\0") if "=" in row)
    changed = {name: value for name, value in after.items() if name not in NOISE and before.get(name) != value}
    return {name: value for name, value in changed.items() if value.endswith(before.get(name, ""))}


def take_setvars(environ: Mapping[str, str], stack: Stack) -> list[Setting]:
    """Return what oneCCL's script sets; nothing where there is none, or where it has run before."""
    script = find_setvars(stack)
    if script is None or environ.get("CCL_ROOT") or not os.path.isfile(script):
        return []
    import subprocess  # only stacks with oneCCL pay for it

    before = without_image(environ, stack)
    argv = ["bash", "--noprofile", "--norc", "-c", SOURCE, "bash", script]
    done = subprocess.run(argv, env=before, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    sourced = changes(before, done.stdout.decode(errors="surrogateescape"))
    return [Setting(name, value, "setvars.sh") for name, value in sourced.items()]


def without_image(environ: Mapping[str, str], stack: Stack) -> dict[str, str]:
    """Return the environment without what the image's configuration has in the place of the script."""
    return {name: value for name, value in environ.items() if stack.environment.get(name) != value}
