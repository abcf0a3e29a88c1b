"""What a container of an image starts with, and what the image says of itself: variables, user, labels, annotations."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from images.base.base import Base
from images.content import parse_variables
from images.layers import oneccl
from images.layers.entrypoint_layer import GID, MULTINODE, UID
from images.lock.lock import Lock
from images.plan.user_files import WORKSPACE

# Of these, too, a user's own names none: OF_IMAGE in content.py.
ENVIRONMENT = {
    "ACCELERATE_USE_CPU": "1",  # without it, ranks under accelerate >= 1.13 each train alone
    "HF_HOME": "/workspace/.cache/huggingface",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # With the mounted key, for every mpirun, also from a shell. Without I_MPI_HYDRA_BOOTSTRAP hydra takes ssh, and in
    # a job of Slurm or PBS the scheduler's own way, which this program passes on.
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"/{MULTINODE}/ssh",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PIP_CONSTRAINT": f"/{MULTINODE}/constraints.txt",
}


# The first pip that can leave PIP_CONSTRAINT out of what builds a source archive (pip, NEWS of 25.3).
FREE_BUILDS = Version("25.3")


def _of_pip(lock: Lock) -> dict[str, str]:
    """Return what lets pip build a source archive with another setuptools than is installed."""
    pips = [Version(artifact.version) for artifact in lock.artifacts if artifact.name == "pip"]
    return {"PIP_USE_FEATURE": "build-constraint"} if pips and pips[0] >= FREE_BUILDS else {}


def _of_mpich(lock: Lock) -> dict[str, str]:
    """Return what stands in ENVIRONMENT for Intel's hydra, in the words of MPICH's."""
    has_it = any(artifact.name == "mpich" for artifact in lock.artifacts)
    return {"HYDRA_BOOTSTRAP_EXEC": ENVIRONMENT["I_MPI_HYDRA_BOOTSTRAP_EXEC"]} if has_it else {}


def container_settings(lock: Lock, base: Base) -> dict[str, Any]:
    """Say what a container starts from (OCI image configuration, `config`)."""
    below, more = base.environment, oneccl.environment(lock, base)
    libraries = [path for environment in (more, below) if (path := environment.get("LD_LIBRARY_PATH"))]
    joined = {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}
    variables = {
        **below,
        **parse_variables(lock.env or ()),
        **ENVIRONMENT,
        **_of_pip(lock),
        **_of_mpich(lock),
        **more,
        **joined,
        "PATH": _join_path(below.get("PATH", "")),
    }
    return {
        "User": f"{UID}:{GID}",
        "WorkingDir": f"/{WORKSPACE}",
        # -s: it reaps where it is not process 1 either, as below `docker run --init` and in a shared process namespace.
        "Entrypoint": ["tini", "-s", "-g", "--", "python3", "-I", "-S", f"/{MULTINODE}"],
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "Labels": labels(lock, base),
    }


def _join_path(below: str) -> str:
    """Keep the base's search path behind the directory of what stands in front of programs, and add what it lacks."""
    ours = ENVIRONMENT["PATH"].split(":")
    return ":".join(dict.fromkeys([ours[0], *filter(None, below.split(":")), *ours]))


def labels(lock: Lock, base: Base) -> dict[str, str]:
    """Return what an image says of itself to people and scanners, from the lock and not from the request.

    None names a licence: the standard's label is for those of all that is inside.
    """
    title = "org.opencontainers.image"
    prefix = "multinode"
    return {
        **_below_it(base, f"{title}.base", prefix),
        f"{title}.title": "multinode",
        f"{title}.description": "Hugging Face training on CPU servers, one node or many",
        f"{title}.version": f"torch{lock.torch}-transformers{lock.transformers}",
        f"{prefix}.torch": lock.version("torch"),
        f"{prefix}.transformers": lock.version("transformers"),
        f"{prefix}.python": _python_release(lock.python, base),
        f"{prefix}.backend": lock.backend,
        f"{prefix}.as-of": str(lock.family_as_of),
    }


def manifest_annotations(lock: Lock) -> dict[str, str]:
    """Return what the manifest of an image says besides: nothing, for the labels say all that is known."""
    return {}


def _below_it(base: Base, standard: str, prefix: str) -> dict[str, str]:
    """Name the base: by the standard's labels only one that was pulled, since they say that its layers are shared.

    See opencontainers/image-spec, annotations.md. A base that was made here shares none with any image of that name.
    """
    stated = {f"{standard}.name": base.name, f"{standard}.digest": base.digest}
    labels = stated if base.is_pulled else {f"{prefix}.base": base.name}
    return {name: value for name, value in labels.items() if value}


def _python_release(python: str, base: Base) -> str:
    """Return the release of Debian's package where the interpreter is of it; of others only 3.X is known."""
    packaged = base.interpreter == f"usr/bin/python{python}"
    return base.facts.packages.get(f"python{python}", python) if packaged else python
