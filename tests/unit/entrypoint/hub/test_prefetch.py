"""`prefetch TASK...`: what becomes of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.hub import prefetch
from entrypoint.hub.prefetch import add_token, check_caches, check_online, list_wanted, prepare_prefetch, read_task
from entrypoint.hub.script import read_script
from entrypoint.machine.image import Stack
from entrypoint.needs.data import SCRIPTS
from entrypoint.tasks import job as jobs
from tests.support.harness import ROOT

TASK = ["qa", "--model_name_or_path", "ours/bert", "--dataset_name", "ours/questions"]


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return an image with the examples of the tests, and the packages that qa needs."""
    for name in ("datasets-5.0.0.dist-info", "evaluate-0.4.6.dist-info"):
        (tmp_path / name).mkdir()
    return Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", str(ROOT / "tests/data/offline"), str(tmp_path))


def test_the_plan_is_what_the_script_loads(stack: Stack, tmp_path: Path) -> None:
    given = {"HF_HOME": str(tmp_path)}
    job, environ = prepare_prefetch([*TASK, "--token", "hf_secret"], given, stack, "/opt/multinode")

    assert (job.kind, job.name, job.words[0]) == ("plain", "python3", "/opt/multinode/prefetch.py")
    plan = json.loads(job.words[1])
    assert (plan["task"], plan["whole"]) == ("qa", True)
    assert [(each["kind"], each["name"]) for each in plan["wanted"]] == [
        ("dataset", "ours/questions"), ("weights", "ours/bert"), ("metric", "squad"),
    ]  # fmt: skip
    assert environ == {**given, "HF_TOKEN": "hf_secret"} and "hf_secret" not in job.words[1]


@pytest.mark.parametrize(
    ("environ", "transformers", "caches", "models"),
    [
        ({"HF_HOME": "/proc/h"}, "5.23.0", ["/proc/h"], None),
        ({"HF_HOME": "$TMP/h", "TMP": "/proc"}, "5.23.0", ["/proc/h"], None),
        ({"HF_HOME": "/proc/h", "TRANSFORMERS_CACHE": "/proc/m"}, "5.23.0", ["/proc/m", "/proc/h/datasets"], "/proc/m"),
        ({"HF_HOME": "/proc/h", "TRANSFORMERS_CACHE": "/proc/m"}, "4.57.6", ["/proc/m", "/proc/h/datasets"], "/proc/m"),
        ({"HF_HUB_CACHE": "/proc/m", "HF_DATASETS_CACHE": "/proc/d"}, "5.23.0", ["/proc/m", "/proc/d"], "/proc/m"),
        ({"HF_HUB_CACHE": "$TMP/m", "HF_DATASETS_CACHE": "/d", "TMP": "/proc"}, "5.23.0", ["/proc/m", "/d"], "/proc/m"),
    ],
)
def test_it_is_fetched_to_where_the_task_looks(
    stack: Stack, monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str], transformers: str, caches: list[str], models: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(prefetch, "can_write", lambda path: path in caches)
    stack = stack._replace(transformers=transformers)

    plan = json.loads(prepare_prefetch(TASK, environ, stack, "/opt/multinode")[0].words[1])

    assert plan["caches"] == caches
    assert {each["kind"]: each["cache"] for each in plan["wanted"]} == {
        "dataset": None, "weights": models, "metric": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "value", "remedy"),
    [
        ([], "nothing", "prefetch qa --model"),
        (["qaa"], "qaa", "qa, or `tasks`"),
        (["smoke"], "smoke", "`tasks`"),
        (["train.py"], "train.py", "`tasks`"),
    ],
)
def test_only_a_task_is_fetched_for(words: list[str], value: str, remedy: str) -> None:
    with pytest.raises(Refusal, match="takes a task") as caught:
        read_task(words)
    assert caught.value.value == value and remedy in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_it_is_refused(name: str) -> None:
    check_online({name: "0"})
    with pytest.raises(Refusal, match="may not") as caught:
        check_online({name: "1"})
    assert caught.value.value == f"{name}=1" and f"unset {name}" in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(
    ("caches", "points", "notes"),
    [
        ({"caches": "/cache"}, ["/", "/cache"], []),
        ({"caches": "/cache/hub"}, ["/", "/cache"], []),
        ({"caches": "/cache"}, ["/"], ["nothing is mounted at /cache: what is fetched is lost with the container"]),
        ({"models": "/a", "data sets": "/b"}, ["/b"],
         ["nothing is mounted at /a: what is fetched is lost with the container"]),
    ],
)  # fmt: skip
def test_a_cache_that_will_be_lost_is_said(caches: dict[str, str], points: list[str], notes: list[str]) -> None:
    assert check_caches(caches, lambda _: True, points) == notes


def test_a_cache_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(Refusal, match="the cache cannot be written") as caught:
        check_caches({"models": "/a", "data sets": "/b"}, lambda path: path == "/a", ["/a", "/b"])
    assert caught.value.value == "/b" and caught.value.code == 2


def test_what_is_in_a_directory_is_not_fetched() -> None:
    source = "AutoModel.from_pretrained('/models/mine'); evaluate.load('squad'); load_dataset('squad')"
    found = list_wanted(read_script(source, {}), lambda path: path in ("/models/mine", "squad"))
    assert [each.kind for each in found] == ["metric"]


@pytest.mark.parametrize("token", [None, True, ""])
def test_a_token_of_no_text_changes_nothing(token: object) -> None:
    assert add_token({"HF_TOKEN": "mine"}, {"token": token}) == {"HF_TOKEN": "mine"}


def prepare_own(text: str, stack: Stack, place: Path) -> jobs.Job:
    """Prepare with examples in which this is the script of qa."""
    script = place / "examples/pytorch/question-answering/run_qa.py"
    script.parent.mkdir(parents=True)
    script.write_text(text)
    return prepare_prefetch(TASK, {"HF_HOME": str(place)}, stack._replace(examples=str(place)), "/opt/multinode")[0]


def test_a_damaged_script_is_said(stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="is damaged") as caught:
        prepare_own("def", stack, tmp_path)
    assert caught.value.code == 1


def test_what_the_arguments_do_not_name_is_said(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = prepare_own("evaluate.load('squad')\nAutoModel.from_pretrained(find())", stack, tmp_path)
    plan = json.loads(job.words[1])
    assert ([each["name"] for each in plan["wanted"]], plan["whole"]) == (["squad"], False)
    note = "multinode: line 2 of run_qa.py loads something that the arguments do not name: not fetched"
    assert note in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("text", ["", "AutoModel.from_pretrained(find())", "torch.hub.load('a', 'b')"])
def test_a_script_of_which_nothing_is_fetched_is_refused(text: str, stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="nothing is found") as caught:
        prepare_own(text, stack, tmp_path)
    assert caught.value.value.endswith("run_qa.py") and "stays in the cache" in caught.value.remedy
    assert caught.value.code == 2


def test_a_data_set_in_the_script_has_its_owner(stack: Stack, tmp_path: Path) -> None:
    job = prepare_own("load_dataset('swag', 'regular')", stack, tmp_path)
    assert [each["name"] for each in json.loads(job.words[1])["wanted"]] == ["allenai/swag"]


@pytest.mark.parametrize("text", ["AutoModel.from_pretrained('/')", "load_dataset('json', data_files=files)"])
def test_a_script_that_loads_only_local_files_is_not_refused(text: str, stack: Stack, tmp_path: Path) -> None:
    plan = json.loads(prepare_own(text, stack, tmp_path).words[1])
    assert plan == {"task": "qa", "wanted": [], "whole": True, "caches": [str(tmp_path)]}


def test_what_a_cache_and_a_data_set_lack_is_said_before_anything_is_fetched(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prefetch, "list_caches", lambda *_: {"models": "/proc/nowhere"})
    monkeypatch.setattr(prefetch, "can_write", lambda _: True)
    monkeypatch.setattr(prefetch, "mount_points", lambda _: ["/"])
    scripts = sorted(SCRIPTS)[0]

    with pytest.raises(Refusal, match="loads no data set that is a script") as caught:
        prepare_prefetch([*TASK[:3], "--dataset_name", scripts], {}, stack, "/opt/multinode")

    assert caught.value.value == f"{scripts}, datasets 5.0.0"
    assert "nothing is mounted at /proc/nowhere: what is fetched is lost" in capsys.readouterr().err
