"""Variables that come in from a host, and would break programs here: Apptainer, ch-run and srun hand all of them on.

What names something that is not here, and harms nobody, stays: a script may make the directory in PYTHONPATH first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Callable, NamedTuple

from multinode_image.machine.files import NETWORK
from multinode_image.reading import whole

# A Python's own directory of libraries, `t` for one without the global lock; `/workspace/python3.12/src` is somebody's.
OF_A_PYTHON = re.compile(r"/lib(?:32|64)?/python(\d+\.\d+t?)(?:/|$)")


class Here(NamedTuple):
    """What this container has: the release of its Python, as `3.11`, whether a file is there, and whether ranks are."""

    python: str
    exists: Callable[[str], bool]
    has_ranks: bool = True


class Row(NamedTuple):
    """How a variable is read; between: what separates its words; in_parts: whether the words that fit stay.

    explain: returns why a word does not fit here; empty where it does.
    """

    explain: Callable[[str, Here], str]
    between: str = "\0"
    in_parts: bool = False


def explain_file(word: str, here: Here) -> str:
    """Return a fault for the path of no file; a name without a directory, or with `$LIB`, is the loader's to find."""
    return "" if not word.startswith("/") or "$" in word or here.exists(word) else "there is no such file here"


def explain_library(word: str, here: Here) -> str:
    """Return a fault for a PYTHONHOME without the standard library of the image's Python, which would not start."""
    there = here.exists(f"{word}/lib/python{here.python}/os.py")
    return "" if there else f"the standard library of Python {here.python} is not there"


def explain_release(word: str, here: Here) -> str:
    """Return a fault for packages of another Python, whose compiled parts cannot be imported."""
    match = OF_A_PYTHON.search(word)
    return f"the Python of this container is {here.python}" if match and match[1] != here.python else ""


def explain_docstrings(word: str, here: Here) -> str:
    """Return a fault for a Python without docstrings, which transformers reads when it is imported."""
    return "transformers needs the docstrings that it removes" if (whole(word) or 0) > 1 else ""


def explain_interface(word: str, here: Here) -> str:
    """Return a fault for no interface of the ranks; without loopback nobody can say which interfaces there are."""
    known = here.has_ranks and here.exists(f"{NETWORK}/lo")
    fits = not known or ("/" not in word and here.exists(f"{NETWORK}/{word}"))
    return "" if fits else "this container has no interface of that name"


ROWS = {
    **dict.fromkeys(("LD_PRELOAD", "LD_AUDIT"), Row(explain_file, ": ", in_parts=True)),
    # A conda of the host sets them; without the file every download fails.
    **dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), Row(explain_file)),
    "PYTHONHOME": Row(explain_library, ":"),
    "PYTHONPATH": Row(explain_release, ":", in_parts=True),
    "PYTHONOPTIMIZE": Row(explain_docstrings),
    # Names, of which gloo takes several (c10d, ProcessGroupGloo); none knows NCCL's `^lo,docker`.
    **dict.fromkeys(
        ("GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE", "I_MPI_HYDRA_IFACE", "HYDRA_IFACE"),
        Row(explain_interface, ","),
    ),
}


def drop_unfit(environ: Mapping[str, str], here: Here) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables without what does not fit here, and a note on each of those that have lost something."""
    fitting, notes = dict(environ), []
    for name, row in ROWS.items():
        words = [word for word in re.split(f"[{row.between}]", environ.get(name, "")) if word.strip()]
        faults = {word: fault for word in words if (fault := row.explain(word.strip(), here))}
        if not faults:
            continue
        join = row.between[0].join
        if kept := join(word for word in words if row.in_parts and word not in faults):
            fitting[name] = kept
        else:
            del fitting[name]
        lost = join(faults) if row.in_parts else environ[name]
        notes.append(f"{name}={lost} is left out: {next(iter(faults.values()))}")
    return fitting, tuple(notes)
