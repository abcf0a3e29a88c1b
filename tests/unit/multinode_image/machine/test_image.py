"""stack.json, and the versions in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multinode_image.machine.image import (
    LAUNCHED,
    list_hidden,
    list_sites,
    read_built,
    read_installed,
    read_stack,
    release,
    warn_hidden,
    warn_stack,
)

FACTS = {"torch": "2.13.0", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "examples": "", "site": "/s"}


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, ""),
        ({LAUNCHED: ""}, ""),
        ({LAUNCHED: "gloo, torch 2.13.0"}, ""),
        ({LAUNCHED: "ccl, torch 2.13.0"}, "gloo, torch 2.13.0, and that of `launch` ccl, torch 2.13.0"),
        ({LAUNCHED: "gloo, torch 2.4.0"}, "gloo, torch 2.13.0, and that of `launch` gloo, torch 2.4.0"),
    ],
)
def test_a_rank_in_another_image_than_that_of_launch_is_noted(environ: dict[str, str], says: str) -> None:
    notes = warn_stack(read_stack(json.dumps(FACTS)), environ)
    assert says in "".join(notes)
    assert bool(notes) == bool(says)


def test_the_variables_of_an_image_are_in_its_stack() -> None:
    text = json.dumps({**FACTS, "environment": {"I_MPI_ROOT": "/usr/local/opt/mpi"}})
    stack = read_stack(text)
    assert (stack.environment, stack.examples) == ({"I_MPI_ROOT": "/usr/local/opt/mpi"}, None)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("5.23.0", (5, 23)),
        ("4.46.0.dev0", (4, 46)),
        ("2.13.0+cpu", (2, 13)),
        ("1.9", (1, 9)),
        ("5", (0, 0)),
        ("x.y", (0, 0)),
    ],
)
def test_a_release_is_its_first_two_numbers(version: str, numbers: tuple[int, int]) -> None:
    assert release(version) == numbers


def test_the_first_directory_on_the_path_counts(tmp_path: Path) -> None:
    for name in ("mine/six-2.0.dist-info", "site/six-1.0.dist-info", "site/Foo_bar-1.0+cpu.dist-info", "site/six"):
        (tmp_path / name).mkdir(parents=True)
    path = [str(tmp_path / name) for name in ("absent", "mine", "site")]
    assert read_installed(path) == {"six": ("2.0",), "foo-bar": ("1.0+cpu",)}


@pytest.mark.parametrize(
    ("environ", "sites"),
    [
        ({"HOME": "/home/a"}, ["/home/a/.local/lib/python3.11/site-packages", "/s"]),
        ({"HOME": "/home/a", "PYTHONNOUSERSITE": "1"}, ["/s"]),
        ({"HOME": "/home/a", "PYTHONUSERBASE": "/b"}, ["/b/lib/python3.11/site-packages", "/s"]),
        ({"PYTHONPATH": "/p::/q", "PYTHONNOUSERSITE": "1"}, ["/p", "/q", "/s"]),
    ],
)
def test_python_has_packages_of_its_path_the_user_and_the_image(environ: dict[str, str], sites: list[str]) -> None:
    assert list_sites(read_stack(json.dumps(FACTS)), environ) == sites


@pytest.mark.parametrize(
    ("own", "environ", "hidden"),
    [
        ((), {}, []),
        (("Six-2.0", "pip-1", "mine-1"), {}, ["six"]),
        (("Six-2.0",), {"PYTHONNOUSERSITE": "1"}, []),
        (("six-1.0",), {}, []),
        (("e-2", "d-2", "c-2", "b-2"), {}, ["b", "c", "d", "e"]),
    ],
)
def test_packages_that_a_home_hides_are_named(
    tmp_path: Path, own: tuple[str, ...], environ: dict[str, str], hidden: list[str]
) -> None:
    site, home = tmp_path / "image", tmp_path / "home" / ".local/lib/python3.11/site-packages"
    for place, names in ((site, ("six-1.0", "pip-2", "b-1", "c-1", "d-1", "e-1")), (home, own)):
        for name in names:
            (place / f"{name}.dist-info").mkdir(parents=True)
    stack, environ = read_stack(json.dumps({**FACTS, "site": str(site)})), {"HOME": f"{tmp_path}/home", **environ}

    assert list_hidden(stack, environ) == hidden
    said = f"{' '.join(hidden)} of {home} hide those of the image; "
    assert warn_hidden(stack, environ) == (
        [f"{said}PYTHONNOUSERSITE=1 leaves them out (Apptainer: --no-home)"] if hidden else []
    )


PARTS = [
    {"name": "Scikit_Learn", "version": "1.7", "purl": "pkg:pypi/scikit-learn@1.7"},
    {"name": "adduser", "version": "3.1", "purl": "pkg:deb/debian/adduser@3.1"},
    {"name": "/workspace/train.py", "type": "file"},
]


@pytest.mark.parametrize(
    ("text", "built"),
    [
        (json.dumps({"components": PARTS}), {"scikit-learn": "1.7"}),
        (json.dumps({"components": [{"purl": "pkg:pypi/a"}]}), {}),
        (json.dumps({"components": ["a"]}), {}),
        (None, {}),
        ("[]", {}),
        ("{", {}),
    ],
)
def test_packages_of_python_are_read_from_the_sbom(text: str | None, built: dict[str, str]) -> None:
    assert read_built(text) == built
