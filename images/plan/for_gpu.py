"""Which requirements are for a GPU, as `pip freeze` writes them beside one, and what an image for CPUs takes of it."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name

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
