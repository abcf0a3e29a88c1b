"""Which requirements count in an image: their markers, read for it and never for the machine that builds."""

from __future__ import annotations

from packaging.markers import UndefinedComparison
from packaging.requirements import Requirement

from images.platforms import Platform


def applies(requirement: Requirement, python: str, platform: Platform, extra: str = "") -> bool:
    """Return whether a requirement counts in an image with this Python (3.N); one that cannot be decided counts.

    The fields are those of PyPA, "Dependency specifiers": packaging takes what is not given from the machine it is on.
    """
    environment = {
        "python_version": python, "python_full_version": f"{python}.0", "implementation_version": f"{python}.0",
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix",
        "sys_platform": "linux", "platform_system": "Linux", "platform_machine": platform.machine,
        "platform_release": "", "platform_version": "", "extra": extra,
    }  # fmt: skip
    try:
        return requirement.marker is None or requirement.marker.evaluate(environment)
    except UndefinedComparison:
        return True
