"""A task: its command, its batches, what it needs and what it can fetch ahead."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from images.plan import catalog
from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.command import DOCTOR, NETWORK, TASK, USAGE, Kind, read_command, read_options
from multinode_image.tasks.defaults import (
    advise_padding,
    check_arguments,
    check_order,
    check_reporters,
    find_nltk,
    list_tasks,
)
from multinode_image.tasks.prefetch import list_wanted, prepare_prefetch
from multinode_image.tasks.table import TASKS, find_task, place_script
from tests.support.harness import ROOT
from tests.support.starts import GLOO, Container, make_facts


def test_a_command_is_of_a_kind(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    kinds = {
        name: read_command([name], {}, lambda word, _: f"/bin/{word}").kind.name
        for name in ("smoke", "qa", "tasks", "worker", "launch", "prefetch", "bash", str(script))
    }
    assert list(kinds.values()) == ["smoke", "task", "tasks", "worker", "launch", "prefetch", "plain", "script"]
    assert read_command([], {}, lambda *_: None).kind == USAGE


@pytest.mark.parametrize(
    ("typed", "explain", "nproc", "command"),
    [
        ("qa --explain", None, None, "qa --explain"),
        ("--explain qa --nproc 2", "text", None, "qa --nproc 2"),
        ("--nproc=2 --explain=json x.py", "json", 2, "x.py"),
        ("--nproc 2 -- --explain x.py", None, 2, "--explain x.py"),
        ("--nproc 2 -h qa", None, None, "--help"),
        ("--nproc 4096 x.py", None, 4096, "x.py"),
    ],
)
def test_options_are_what_stands_before_the_command(
    typed: str, explain: str | None, nproc: int | None, command: str
) -> None:
    assert read_options(typed.split()) == ((explain, nproc), command.split())


@pytest.mark.parametrize(
    ("words", "kind", "trains"),
    [([], DOCTOR, False), (["--json"], DOCTOR, False), (["--network"], NETWORK, True), (["--help"], USAGE, False)],
)
def test_doctor_runs_as_ranks_where_the_network_is_measured(words: list[str], kind: Kind, trains: bool) -> None:
    command = read_command(["doctor", *words], {}, lambda *_: None)

    assert (command.kind, command.trains) == (kind, trains)


@pytest.mark.parametrize(
    ("module", "file"), [("pkg.train", "pkg/train.py"), ("pkg.sub", "pkg/sub/__main__.py"), ("pkg.none", "pkg.none")]
)
def test_a_module_is_a_file_or_a_package_of_this_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg/sub").mkdir(parents=True)
    for name in ("pkg/train.py", "pkg/sub/__main__.py"):
        (tmp_path / name).touch()

    assert read_command(["-m", module, "--a"], {}, lambda *_: None).script == (file, ["--a"])


def test_every_script_of_the_examples_is_a_task(tmp_path: Path) -> None:
    for name in ("images/run_mae.py", "sound/run_speech_recognition_ctc.py", "text/run_qa_beam_search.py"):
        (tmp_path / "examples/pytorch" / name).parent.mkdir(parents=True)
        (tmp_path / "examples/pytorch" / name).touch()
    for name in ("mae", "speech-recognition-ctc", "qa-beam"):
        assert read_command([name, "--seed", "1"], {}, lambda *_: None, str(tmp_path)) == (TASK, name, ["--seed", "1"])
    with pytest.raises(Refusal):
        read_command(["mim"], {}, lambda *_: None, str(tmp_path))


def test_every_task_with_defaults_has_the_packages_of_its_script() -> None:
    rows = [line.split() for line in (ROOT / "tests/data/scripts.txt").read_text().splitlines() if line[0] != "#"]
    directories = {f"run_{name}.py": directory for directory, *names in rows for name in names}

    assert {task.file for task in TASKS.values()} <= directories.keys(), "tests/data/scripts.txt lacks them"
    needed = {directories[task.file] for task in TASKS.values()}
    assert needed <= {*catalog.load().tasks} <= {*directories.values()}, "[tasks] of images/versions.toml"


PADS = "tokens = tokenizer(text, truncation=True, padding='max_length')\n"


@pytest.mark.parametrize(
    ("name", "arguments", "release", "value"),
    [
        ("qa", {"group_by_length": True, "do_eval": True}, "4.46.0", "--group_by_length and --do_eval"),
        ("qa", {"group_by_length": True, "do_eval": True}, "4.45.2", ""),
        ("qa", {"group_by_length": "False", "do_eval": True}, "4.46.0", ""),
        ("qa", {"train_sampling_strategy": "group_by_length", "eval_strategy": "steps"}, "5.23.0",
         "--group_by_length and --eval_strategy"),
        ("qa", {"group_by_length": True, "evaluation_strategy": "steps"}, "4.46.0",
         "--group_by_length and --evaluation_strategy"),
        ("qa", {"train_sampling_strategy": "group_by_length", "do_train": True, "do_eval": False}, "5.23.0", ""),
        ("glue", {"train_sampling_strategy": "group_by_length", "do_eval": True}, "5.23.0", ""),
        ("glue", {"train_sampling_strategy": "group_by_length", "do_predict": True}, "5.23.0",
         "--group_by_length and --do_predict"),
    ],
)  # fmt: skip
def test_predictions_in_another_order_than_the_examples_are_refused(
    name: str, arguments: dict[str, object], release: str, value: str
) -> None:
    try:
        check_order(find_task(name), arguments, GLOO._replace(transformers=release))
    except Refusal as refusal:
        assert (refusal.value, refusal.code) == (value, 2)
    else:
        assert not value


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (PADS, True),
        ('data.map(lambda row: tokenizer(\n    row["text"],\n    padding = "max_length",\n))', True),
        (PADS.replace("'max_length'", "True"), False),
        (PADS.replace("padding", "# padding"), False),
        ("trainer = SFTTrainer(model, SFTConfig(max_length=512), train_dataset=data)", False),
        ("", False),
    ],
)
def test_a_script_that_pads_all_texts_to_one_length_is_told_so(source: str, told: bool) -> None:
    assert bool(advise_padding("train.py", source)) is told


@pytest.mark.parametrize(
    ("line", "node", "told"),
    [("train.py", "0", 1), ("torchrun train.py", "0", 1), ("train.py", "1", 0), ("cat train.py", "0", 0)],
)
def test_one_node_of_a_training_says_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, node: str, told: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PADS)
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": node, "PET_MASTER_ADDR": "pod0"}

    started = Container(tmp_path).furnish().start(line, nodes)

    assert started.err.count("train.py has padding") == told


TEXT, MEDIA = "text-classification", "speech-recognition"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return an image with two scripts and a few packages."""
    site, examples = tmp_path / "site", tmp_path / "examples/pytorch"
    for name in ("datasets-4.0.0", "scikit_learn-1.7", "rouge_score-0.1.2"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    for name in (f"{TEXT}/run_glue.py", f"{MEDIA}/run_speech_recognition_ctc.py"):
        (examples / name).parent.mkdir(parents=True, exist_ok=True)
        (examples / name).touch()
    return Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", str(tmp_path), str(site))


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("glue", {}, ""),
        ("glue", {"report_to": "all none azure_ml flyte kubeflow"}, ""),
        ("glue", {"report_to": "rouge_score"}, ""),
        ("glue", {"report_to": "rouge_score comet_ml"}, "comet-ml"),
        ("glue", {"report_to": "wandb"}, "wandb"),
        ("glue-no-trainer", {"report_to": "wandb"}, ""),
        ("glue-no-trainer", {"report_to": "wandb", "with_tracking": True}, "wandb"),
    ],
)
def test_what_a_training_reports_to_is_in_the_image(
    stack: Stack, name: str, arguments: dict[str, object], refused: str
) -> None:
    try:
        check_reporters(find_task(name), arguments, stack, {})
    except Refusal as refusal:
        assert refused and refusal.code == 2 and f"pip install {refused} " in refusal.remedy
    else:
        assert not refused


@pytest.mark.parametrize(("examples", "name"), [(None, "qa"), ("", "qa"), ("", "mim")])
def test_a_script_that_is_not_there_is_refused(stack: Stack, examples: str | None, name: str) -> None:
    with pytest.raises(Refusal) as caught:
        place_script(name, stack._replace(examples=examples))
    assert caught.value.code == 2 and ("--examples" in caught.value.remedy) is (examples is None)


def test_the_simple_way_to_a_script_is_named_first(stack: Stack) -> None:
    with pytest.raises(Refusal) as caught:
        place_script("qa", stack._replace(examples=None))

    first, _, other = caught.value.remedy.partition("; ")
    assert first == f"build it without --examples none: {stack.again}" and "--examples ARCHIVE" in other


def test_data_of_nltk_that_were_fetched_are_found(tmp_path: Path) -> None:
    summarization, environ = find_task("summarization"), {"HF_HOME": str(tmp_path)}
    assert find_nltk(summarization, environ) == []
    (tmp_path / "nltk_data").mkdir()
    assert [(setting.name, setting.value) for setting in find_nltk(summarization, environ)] == [
        ("NLTK_DATA", f"{tmp_path}/nltk_data")
    ]
    assert find_nltk(find_task("qa"), environ) == []


def test_a_directory_that_a_script_ignores_is_refused() -> None:
    for name in ("train_dir", "validation_dir"):
        with pytest.raises(Refusal) as caught:
            check_arguments(find_task("mae"), {name: "/d"})
        assert (caught.value.value, caught.value.code) == (f"--{name} /d", 2)
    check_arguments(find_task("mae"), {"train_dir": "/d", "dataset_name": "x"})
    check_arguments(find_task("image-classification"), {"train_dir": "/d"})


def test_the_scripts_of_the_image_are_listed(stack: Stack) -> None:
    rows = list_tasks(stack).splitlines()
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == [
        "smoke", "glue", "speech-recognition-ctc", "examples:",
    ]  # fmt: skip
    assert f"    {TEXT}/run_glue.py --model_name_or_path google-bert" in rows[2]
    with_ccl = list_tasks(stack._replace(backend="ccl", transformers="4.46.0"))
    assert "run_glue.py" in with_ccl and "--ddp_backend" not in with_ccl, "what only several ranks have is not listed"


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
        ("mae", "--config_name c --image_processor_name i --feature_extractor_name f --dataset_name d",
         ["dataset d", "files c", "files i", "files f"]),
        ("qa", "--model_name_or_path /d/bert --dataset_name /d/questions", ["metric squad"]),
        ("clm", "--dataset_config_name wikitext-103-v1",
         ["dataset Salesforce/wikitext wikitext-103-v1", "weights openai-community/gpt2", "metric accuracy"]),
        ("clm", "--validation_file /d/v.txt", ["weights openai-community/gpt2", "metric accuracy"]),
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
    assert [" ".join(filter(None, row[:3])) for row in wanted] == expected
    assert [row.text for row in wanted] == [re.sub("^(weights|files) ", "model ", text) for text in expected]


def test_revision_and_places_are_those_of_the_arguments() -> None:
    given = {"model_name_or_path": "m", "model_revision": "r", "cache_dir": "/c", "dataset_name": "d"}
    data, model, metric = list_wanted(find_task("qa"), given, "/models", "", lambda _: False)
    assert (model.revision, model.cache, data.revision, data.cache, metric.cache) == ("r", "/c", None, "/c", "/c")
    del given["cache_dir"]
    data, model, _ = list_wanted(find_task("qa"), given, "/models", "", lambda _: False)
    assert (model.cache, data.cache) == ("/models", None)


@pytest.fixture
def stack_of_place(tmp_path: Path) -> Stack:
    """Return an image with the examples of the tests."""
    return NEW._replace(site=str(tmp_path))


def prepare(
    words: list[str], environ: dict[str, str], stack_of_place: Stack
) -> tuple[dict[str, object], dict[str, str]]:
    job, environ = prepare_prefetch(words, make_facts(environ, stack_of_place))
    assert (job.kind.name, job.name, job.words[0]) == ("prefetch", "python3", "/opt/multinode/prefetch.py")
    assert "hf_secret" not in job.words[1]
    return json.loads(job.words[1]), environ


def test_the_plan_is_carried_out_with_the_token_in_the_environment(stack_of_place: Stack, tmp_path: Path) -> None:
    given = {"HF_HOME": str(tmp_path)}
    plan, environ = prepare(["qa", *BERT.split(), "--token", "hf_secret"], given, stack_of_place)
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
    stack_of_place: Stack,
    tmp_path: Path,
    environ: dict[str, str],
    caches: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan, _ = prepare(["qa"], {name: value.format(tmp_path) for name, value in environ.items()}, stack_of_place)
    assert plan["caches"] == [cache.format(tmp_path) for cache in caches]
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
    stack_of_place: Stack, tmp_path: Path, words: list[str], environ: dict[str, str], value: str
) -> None:
    with pytest.raises(Refusal) as caught:
        prepare_prefetch(words, make_facts({"HF_HOME": str(tmp_path), **environ}, stack_of_place))
    assert (caught.value.value, caught.value.code) == (value, 2)
