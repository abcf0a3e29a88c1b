"""What a container of a training is given, and what is read from its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.train import oneccl, pair, scenes
from benchmarks.train.scenes import SCENES, Scene
from images.host.errors import UserFault

BY_NAME = {scene.name: scene for scene in SCENES}


@pytest.mark.parametrize(
    ("name", "cores", "limits", "threads"),
    [
        ("unlimited", 2, (), "2"),
        ("half", 2, ("--cpus", "1"), "1"),
        ("half", 32, ("--cpus", "16"), "16"),
        ("quarter", 2, ("--cpus", "0.5"), "1"),
        ("three quarters", 2, ("--cpus", "1.5"), "2"),
        ("half set", 2, ("--cpuset-cpus", "0-0"), "1"),
        ("half set", 8, ("--cpuset-cpus", "0-3"), "4"),
    ],
)
def test_a_limit_is_a_share_of_the_machine(name: str, cores: int, limits: tuple[str, ...], threads: str) -> None:
    given = scenes.setting(BY_NAME[name], "guide", cores)

    assert given.limits == limits
    assert given.environ["OMP_NUM_THREADS"] == threads


def test_only_the_tuned_one_runs_the_entrypoint() -> None:
    given = {mode: scenes.setting(Scene("unlimited"), mode, 2) for mode in scenes.MODES}

    assert {mode: each.entrypoint for mode, each in given.items()} == {
        "tuned": "", "untuned": "python3", "guide": "python3",
    }  # fmt: skip
    assert not given["tuned"].environ and not given["untuned"].environ


@pytest.mark.parametrize(
    ("scene", "number", "trained"),
    [
        ("unlimited", 0, ["smoke", "distilbert", "float32"]),
        ("unlimited", 1, ["smoke"]),
        ("half", 1, ["smoke", "distilbert", "float32"]),
        ("quarter", 0, ["distilbert"]),
        ("quarter", 1, []),
    ],
)
def test_what_takes_long_is_repeated_only_where_something_is_promised(
    scene: str, number: int, trained: list[str]
) -> None:
    assert scenes.models(BY_NAME[scene], number) == trained
    assert scenes.MODELS.keys() >= set(trained)


def test_the_first_steps_are_left_out() -> None:
    text = 'multinode: a line\n{"steps": [25.0, 9.5, 5.0, 6.0, 5.5], "loss": null, "world": 1, "threads": 1}\n'

    assert scenes.step(text) == 5.5


def test_the_line_of_smoke_is_read() -> None:
    text = "other\nsmoke: passed: world_size=1 backend=none loss_after=0.0011 seconds=0.78 weights=24bfea71e37066f5\n"

    assert scenes.passed(text)["seconds"] == 0.78


def test_a_shape_says_how_many_steps() -> None:
    assert pair.SMALL.name == "8x128"
    assert pair.LARGE.words == ["--batch", "12", "--length", "384", "--steps", str(scenes.WARM + pair.LARGE.steps)]


def test_wheels_are_taken_where_they_are_kept(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(UserFault, match="MULTINODE_CCL"):
        oneccl.wheelhouse(environ, tmp_path / "made")
    kept = tmp_path / "multinode-ccl"
    kept.mkdir()
    for name in oneccl.WHEELS:
        (kept / f"{name}-x.whl").touch()

    assert oneccl.wheelhouse(environ, tmp_path / "made") == kept
