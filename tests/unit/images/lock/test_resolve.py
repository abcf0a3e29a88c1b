"""What is asked of uv, and what is made of its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.pip_config import Sources
from images.lock import resolve, wheel_tags
from images.plan import catalog, planner

PLAN = planner.resolve(planner.Request(), catalog.load())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["yarl-1-py3-none-any.whl", "yarl-1-cp311-cp311-manylinux_2_17_x86_64.whl"], 1),
        (["a-1-cp311-cp311-manylinux2014_x86_64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
        (["a-1-cp38-abi3-manylinux_2_34_x86_64.whl", "a-1.tar.gz"], 0),
        (["a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl"], 1),
        (["torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"], 0),
    ],
)
def test_the_best_file_is_chosen(names: list[str], expected: int) -> None:
    files = [{"url": f"https://host/p/{name}", "sha256": str(number)} for number, name in enumerate(names)]

    chosen = wheel_tags.choose({"name": "a", "version": "1", "files": files}, "3.11", "2.36")

    assert chosen.sha256 == str(expected)
    assert "%" not in chosen.filename


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-1-cp311-cp311-linux_x86_64.whl", "mine"),
        ("a-1-cp310-cp310-linux_x86_64.whl", "index"),  # of another Python
    ],
)
def test_a_wheel_of_the_users_own_folder_wins(tmp_path: Path, name: str, expected: str) -> None:
    files = [
        {"url": "https://host/a-1-cp311-cp311-manylinux2014_x86_64.whl", "sha256": "index"},
        {"url": (tmp_path / name).as_uri(), "sha256": "mine"},
    ]

    chosen = wheel_tags.choose({"name": "a", "version": "1", "files": files}, "3.11", "2.36", str(tmp_path))

    assert chosen.sha256 == expected


@pytest.mark.parametrize(
    ("package", "is_for_gpu"),
    [
        ("nvidia-cublas 13.1", True),
        ("triton 3.4", True),
        ("cuda-bindings 13", True),
        ("torch 2.13.0+cu130", True),
        ("torch 2.13.0+cpu", False),
        ("triton-viz 1", False),
    ],
)
def test_packages_for_a_gpu_are_found(package: str, is_for_gpu: bool) -> None:
    name, version = package.split()

    assert bool(resolve._gpu([{"name": name, "version": version}])) is is_for_gpu


CCL = planner.resolve(planner.Request(torch="2.4.0", transformers="4.46.0"), catalog.load())


def test_source_only_projects_are_stated_as_toml() -> None:
    import tomllib

    row = catalog.SourceOnly(name="seqeval", version="1.2.2", requires=("numpy>=1.14.0",))

    assert tomllib.loads(resolve._metadata(row)) == {
        "dependency-metadata": [{"name": "seqeval", "version": "1.2.2", "requires-dist": ["numpy>=1.14.0"]}]
    }


def test_intels_index_is_asked_only_for_what_was_missed() -> None:
    missed = "Because oneccl-bind-pt was not found in the package registry"

    assert resolve._wider(Sources(), "other words", None, CCL) == Sources()
    assert resolve._wider(Sources(), missed, None, PLAN) == Sources()
    wider = resolve._wider(Sources(), missed, None, CCL)
    assert wider.extra == (CCL.index,)
    assert resolve._wider(wider, missed, None, CCL) == wider


def test_what_is_pinned_without_a_day_is_exempt_from_the_day() -> None:
    options = resolve._options(CCL, CCL.requirements)

    assert "oneccl-bind-pt=false" in options
    exempt = {
        option.removesuffix("=false")
        for option in resolve._options(PLAN, PLAN.requirements)
        if option.endswith("=false")
    }
    assert exempt == {"torch", "transformers", "impi-rt", "intel-openmp", "rouge-score", "seqeval"}
