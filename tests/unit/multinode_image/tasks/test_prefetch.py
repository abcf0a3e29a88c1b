"""`prefetch TASK...`: what is fetched, by the arguments and the task's row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.prefetch import list_wanted, prepare_prefetch
from multinode_image.tasks.table import find_task
from tests.support.harness import ROOT
from tests.support.starts import make_facts

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", str(ROOT / "tests/data/offline"), "/site")
BERT = "--model_name_or_path ours/bert "


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("qa", BERT + "--dataset_name ours/q", ["dataset ours/q", "weights ours/bert", "metric squad"]),
        ("qa", BERT + "--dataset_name squad_v2 --version_2_with_negative",
         ["dataset rajpurkar/squad_v2", "weights ours/bert", "metric squad_v2"]),
        ("qa", BERT + "--train_file /d/t.json --tokenizer_name ours/words --config_name ours/bert",
         ["weights ours/bert", "files ours/words", "metric squad"]),
        ("qa", "--model_name_or_path /d/bert --dataset_name /d/questions", ["metric squad"]),
        ("clm", "--dataset_config_name wikitext-103-v1",
         ["dataset Salesforce/wikitext wikitext-103-v1", "weights openai-community/gpt2", "metric accuracy"]),
        ("clm", "--model_type gpt2 --tokenizer_name ours/words --dataset_name ours/text",
         ["dataset ours/text", "files ours/words", "metric accuracy"]),
        ("glue", BERT + "--task_name sst2", ["dataset nyu-mll/glue sst2", "weights ours/bert", "metric glue sst2"]),
        ("glue", BERT + "--dataset_name ours/pairs", ["dataset ours/pairs", "weights ours/bert", "metric accuracy"]),
        ("classification", BERT + "--metric_name f1",
         ["dataset stanfordnlp/imdb", "weights ours/bert", "metric f1"]),
        ("summarization", BERT + "--dataset_name ours/news --dataset_config 1.0",
         ["dataset ours/news 1.0", "weights ours/bert", "metric rouge", "nltk punkt", "nltk punkt_tab"]),
        ("image-classification", BERT + "--dataset_name beans", ["dataset AI-Lab-Makerere/beans", "weights ours/bert"]),
    ],
)  # fmt: skip
def test_the_arguments_and_the_row_of_a_task_name_what_is_fetched(name: str, line: str, expected: list[str]) -> None:
    task = find_task(name)
    given = complete(task, "x.py", line.split(), NEW, many=False).arguments
    wanted = list_wanted(task, given, None, 'load_dataset("nyu-mll/glue")', lambda path: path.startswith("/d/"))
    assert [" ".join(filter(None, each[:3])) for each in wanted] == expected


def test_revision_and_places_are_those_of_the_arguments() -> None:
    given = {"model_name_or_path": "m", "model_revision": "r", "cache_dir": "/c", "dataset_name": "d"}
    data, model, metric = list_wanted(find_task("qa"), given, "/models", "", lambda _: False)
    assert (model.revision, model.cache, data.revision, data.cache, metric.cache) == ("r", "/c", None, "/c", "/c")
    del given["cache_dir"]
    data, model, _ = list_wanted(find_task("qa"), given, "/models", "", lambda _: False)
    assert (model.cache, data.cache) == ("/models", None)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return an image with the examples of the tests."""
    return NEW._replace(site=str(tmp_path))


def prepare(words: list[str], environ: dict[str, str], stack: Stack) -> tuple[dict[str, object], dict[str, str]]:
    job, environ = prepare_prefetch(words, make_facts(environ, stack))
    assert (job.kind.name, job.name, job.words[0]) == ("prefetch", "python3", "/opt/multinode/prefetch.py")
    assert "hf_secret" not in job.words[1]
    return json.loads(job.words[1]), environ


def test_the_plan_is_carried_out_with_the_token_in_the_environment(stack: Stack, tmp_path: Path) -> None:
    given = {"HF_HOME": str(tmp_path)}
    plan, environ = prepare(["qa", *BERT.split(), "--token", "hf_secret"], given, stack)
    assert (plan["task"], plan["whole"], plan["caches"]) == ("qa", True, [str(tmp_path)])
    assert environ == {**given, "HF_TOKEN": "hf_secret"}


@pytest.mark.parametrize(
    ("environ", "caches"),
    [
        ({"HF_HOME": "{}/h"}, ["{}/h"]),
        ({"HF_HOME": "{}/h", "TRANSFORMERS_CACHE": "{}/m"}, ["{}/m", "{}/h/datasets"]),
        ({"HF_HUB_CACHE": "{}/m", "HF_DATASETS_CACHE": "{}/d"}, ["{}/m", "{}/d"]),
    ],
)
def test_it_is_fetched_to_where_the_task_looks(
    stack: Stack, tmp_path: Path, environ: dict[str, str], caches: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plan, _ = prepare(["qa"], {name: value.format(tmp_path) for name, value in environ.items()}, stack)
    assert plan["caches"] == [each.format(tmp_path) for each in caches]
    assert "what is fetched is lost with the container" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "environ", "value"),
    [
        ([], {}, "nothing"),
        (["qaa"], {}, "qaa"),
        (["smoke"], {}, "smoke"),
        (["qa"], {"HF_HOME": "/dev/null/no"}, "/dev/null/no"),
        (["qa", "squad"], {}, "squad"),
    ],
)
def test_what_cannot_be_fetched_is_refused(
    stack: Stack, tmp_path: Path, words: list[str], environ: dict[str, str], value: str
) -> None:
    with pytest.raises(Refusal) as caught:
        prepare_prefetch(words, make_facts({"HF_HOME": str(tmp_path), **environ}, stack))
    assert (caught.value.value, caught.value.code) == (value, 2)
