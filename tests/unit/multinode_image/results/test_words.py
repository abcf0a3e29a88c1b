"""By what nodes of one job know each other: what is typed on all of them alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.results.plan import VARIABLE, name_words
from multinode_image.tasks.command import PLAIN, SCRIPT, SMOKE, TASK, Command


def name(*words: str, environ: dict[str, str] | None = None, kind: object = SCRIPT) -> str:
    command = Command(kind, words[0], [*words[1:]])  # type: ignore[arg-type]
    arguments = {"model_name_or_path": "m", "output_dir": words[-1]} if kind == TASK else {}
    return name_words(command, arguments, environ or {}).get(VARIABLE, "")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("print(1)\n")
    return path


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (("train.py", "--corpus", "alpha"), ("train.py", "--corpus", "beta"), False),
        (("train.py", "alpha"), ("train.py", "beta"), False),
        (("train.py", "--corpus", "a"), ("other.py", "--corpus", "a"), False),
        (("train.py", "--node_rank", "0"), ("train.py", "--node_rank", "1"), True),
        (("train.py", "--machine-rank=0"), ("train.py", "--machine-rank=1"), True),
        (("train.py", "--output_dir", "/a"), ("train.py", "--output_dir", "/b"), True),
    ],
)
def test_what_is_typed_tells_two_jobs_apart(one: tuple[str, ...], other: tuple[str, ...], alike: bool) -> None:
    assert (name(*one).partition(" ")[0] == name(*other).partition(" ")[0]) == alike


def test_a_script_of_the_same_name_is_another_one(script: Path) -> None:
    before = name("train.py")
    script.write_text("print(2)\n")

    assert before.endswith(" train.py") and name("train.py") != before


def test_an_id_of_the_user_stands_for_all_words() -> None:
    given = {"PET_RDZV_ID": "night"}

    assert name("train.py", "a", environ=given) == name("train.py", "b", environ=given) != name("train.py", "a")


def test_a_program_that_python_runs_is_known_and_no_other() -> None:
    assert name("python", "train.py", "--corpus", "alpha", kind=PLAIN).endswith("train.py --corpus alpha")
    assert name("bash", "run.sh", kind=PLAIN) == name("smoke", kind=SMOKE) == ""


def test_a_task_is_known_by_its_arguments() -> None:
    assert name("qa", "/results/a", kind=TASK) == name("qa", "/results/b", kind=TASK)
    assert name("qa", "/results/a", kind=TASK) != name("glue", "/results/a", kind=TASK)


def test_secrets_are_not_shown() -> None:
    assert "hf_" not in name("train.py", "--hub_token", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh")
