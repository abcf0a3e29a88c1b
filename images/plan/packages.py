"""Which packages are for a GPU, and which requirements count in an image, by their markers read for it."""

from __future__ import annotations

import re

from packaging.markers import UndefinedComparison
from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name

from images.platforms import Platform

# Linked to torch's libraries, and to CUDA's in most wheels that PyPI has of them: all three come as one kind
# of build.
BUILT_WITH_TORCH = ("torch", "torchvision", "torchaudio")
# What builds of torch for CUDA require. nvidia-ml-py only queries a driver, and tools that measure energy require it.
PARTS = re.compile(r"nvidia-(?!ml-py$).*|cuda-.*|triton|pytorch-triton.*")
# Kernels that only a compiler for GPUs builds; transformers does without, where nobody asks for them.
KERNELS = re.compile(r"flash-attn.*|causal-conv1d|mamba-ssm")
# In the local part of a version: 2.5.1+cu121, 2.1.2+pt25cu121.
BUILD_FOR_GPU = re.compile(r"(?:^|[.\d])(?:cu\d|cuda|rocm|xpu)")


def is_part(name: str) -> bool:
    """Return whether a package is what a build of torch for CUDA requires."""
    return bool(PARTS.fullmatch(name))


def is_left_out(name: str) -> bool:
    """Return whether a package of the user's own stays out of an image for CPUs: its code does without."""
    return is_part(name) or bool(KERNELS.fullmatch(name))


def is_build(version: str) -> bool:
    """Return whether a version is that of a build for a GPU, as its local part says."""
    return bool(BUILD_FOR_GPU.search(version.partition("+")[2]))


def public(version: str) -> str:
    """Return a version without its local part, which names a build of the same release."""
    return version.partition("+")[0]


def read_public(requirement: Requirement) -> Requirement:
    """Return a requirement for the release of which a build is named.

    Any build of what is built with torch is read so, of other packages one for a GPU.
    """
    is_any = canonicalize_name(requirement.name) in BUILT_WITH_TORCH

    def read(one: Specifier) -> str:
        return f"{one.operator}{public(one.version)}" if is_any or is_build(one.version) else str(one)

    read_one = Requirement(str(requirement))
    read_one.specifier = SpecifierSet(",".join(map(read, requirement.specifier)))
    return read_one


# Which requirements count in an image: their markers, read for it and never for the machine that builds.


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
