"""What is said before a command starts, because it would come up late: places, memory, certificates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.container.files import can_write, file_system_size, make_private, read_text, write_private
from entrypoint.container.places import CERTIFICATE, check_output, is_mounted, mount_points
from entrypoint.training import job as jobs
from entrypoint.training.argfile import find_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.container.image import Stack
    from entrypoint.launchers.world import World
    from entrypoint.settings import Setting


def trust_mounted(environ: Mapping[str, str], stack: Stack) -> tuple[list[Setting], list[str]]:
    """Trust the mounted certificate, if there is one; the second part says what is wrong with it."""
    if not os.path.lexists(CERTIFICATE):
        return [], []
    from entrypoint.container.certificates import point_to, read_trust

    trust = read_trust(stack.site, read_text)
    if trust.bundle is None:
        return [], [trust.fault or ""]
    folder = make_private(f"/tmp/multinode-{os.getuid()}")
    return point_to(write_private(f"{folder}/ca-bundle.pem", trust.bundle), environ), []


def warn_early(job: jobs.Job, given: Mapping[str, object], world: World) -> list[str]:
    """Say what a training will run into on this machine."""
    if not job.trains:
        return []
    from entrypoint.container.limits import MEMORY, SMOKE_MEMORY, Wish, read_limits, warn

    memory = SMOKE_MEMORY if job.kind == jobs.SMOKE else MEMORY
    wish = Wish(given, world.local_size or 1, memory, known=job.kind != jobs.SCRIPT)
    return warn(read_limits(read_text, file_system_size), wish)


def check_places(given: Mapping[str, object], environ: Mapping[str, str], world: World) -> list[str]:
    """Say where results and caches go, and whether they would be lost."""
    output = find_output(given)
    if output is None or world.rank:
        return []
    check_output(output, can_write)
    cache = environ.get("HF_HOME", f"{environ.get('HOME', '')}/.cache/huggingface")
    points = mount_points(read_text("/proc/self/mountinfo"))
    lost = [path for path in (output, cache) if not is_mounted(os.path.realpath(path), points)]
    warning = f"; nothing is mounted at {' and '.join(lost)}, lost with the container" if lost else ""
    return [f"results go to {output}, caches to {cache}{warning}"]
