"""Whether a task can run: its script, and the packages it imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from entrypoint.container.image import TORCH_INDEX, Stack
from entrypoint.errors import Refusal
from entrypoint.training.needs import (
    BUILT,
    SCRIPTS,
    check_dataset,
    check_directory,
    check_flaws,
    check_hidden,
    check_needs,
    check_nltk,
    find_nltk,
    find_script,
    find_switched_on,
    list_nltk,
    list_tasks,
)
from entrypoint.training.tasks import NEEDS, TASKS
from images.plan import catalog

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
AGAIN = "python build.py --torch 2.13.0 --transformers 5.23.0 --backend gloo"


def test_scripts() -> None:
    script = find_script("qa", TASKS["qa"], NEW)
    assert script == "/workspace/transformers/examples/pytorch/question-answering/run_qa.py"


@pytest.mark.parametrize(
    ("name", "stack", "fact", "remedy"),
    [
        ("qa", NEW._replace(examples=None), "without the examples", f"{AGAIN} --examples"),
        ("fim", NEW._replace(transformers="4.38.2"), "do not have the task", "transformers 4.39 or later"),
    ],
)
def test_no_script(name: str, stack: Stack, fact: str, remedy: str) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        find_script(name, TASKS[name], stack)
    assert remedy in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(
    ("name", "datasets", "there", "value", "remedy"),
    [
        ("ner", "5.0.0", ["datasets", "evaluate"], "seqeval", f"build it with all tasks for text: {AGAIN}"),
        ("clip", "5.0.0", ["datasets"], "torchvision",
         f"pip install --extra-index-url {TORCH_INDEX} torchvision as USER root in an image FROM this one"),
        ("ctc", "3.6.0", ["datasets"], "evaluate, jiwer, librosa",
         "pip install evaluate jiwer librosa as USER root in an image FROM this one"),
        ("ctc", "4.0.0", ["datasets", "evaluate"], "jiwer, librosa, torchcodec",
         "PIP_CONSTRAINT= pip install 'datasets<4' jiwer librosa as USER root in an image FROM this one; or "
         f"pip install --extra-index-url {TORCH_INDEX} jiwer librosa torchcodec as USER root in an image FROM this one"
         ", with ffmpeg and the torchcodec for torch 2.13"),
        ("wav2vec2-no-trainer", "5.0.0", ["datasets", "librosa"], "torchcodec",
         "PIP_CONSTRAINT= pip install 'datasets<4' as USER root in an image FROM this one; or "
         f"pip install --extra-index-url {TORCH_INDEX} torchcodec as USER root in an image FROM this one, "
         "with ffmpeg and the torchcodec for torch 2.13"),
    ],
)  # fmt: skip
def test_a_task_without_its_packages_is_refused(
    name: str, datasets: str, there: list[str], value: str, remedy: str
) -> None:
    with pytest.raises(Refusal, match="no requirements") as caught:
        check_needs(name, NEW, datasets, lambda: there, lambda: there)
    assert (caught.value.value, caught.value.remedy) == (value, remedy)


def test_python_is_asked_only_for_what_is_not_in_the_image() -> None:
    asked: list[str] = []

    def sure() -> list[str]:
        asked.append("python")
        return ["Datasets", "evaluate", "scikit.learn"]

    check_needs("glue", NEW, "5.0.0", lambda: ["datasets", "evaluate", "scikit_learn"], sure)
    assert asked == []
    check_needs("glue", NEW, "5.0.0", lambda: ["datasets", "evaluate"], sure)
    assert asked == ["python"]


def test_the_builder_knows_the_same_packages() -> None:
    table = catalog.load()
    assert set(BUILT) == set(table.tasks)
    everywhere = {name for row in table.transformers.values() for name in names(row.requires)}
    for directory in BUILT:
        assert set(NEEDS[directory]) <= everywhere | names(table.tasks[directory]), directory


def names(requirements: tuple[str, ...]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def test_a_script_that_is_known_to_fail_is_refused(tmp_path: Path) -> None:
    (tmp_path / "accelerate-1.15.0.dist-info").mkdir()
    check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.XLA", [str(tmp_path)])
    with pytest.raises(Refusal, match="known to fail") as caught:
        check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.TPU", [str(tmp_path)])
    assert caught.value.value == "DistributedType.TPU with accelerate 1.15.0" and caught.value.code == 2
    assert "DistributedType.XLA, mounted at /t/run_clm_no_trainer.py" in caught.value.remedy


def test_the_list_marks_scripts_that_fail_or_are_missing(tmp_path: Path) -> None:
    (tmp_path / "transformers-5.23.0.dist-info").mkdir()
    scripts = tmp_path / "examples/pytorch/language-modeling"
    scripts.mkdir(parents=True)
    (scripts / "run_plm.py").write_text("Trainer(processing_classtokenizer=tokenizer)")
    (scripts / "run_clm.py").write_text("Trainer(processing_class=tokenizer)")
    stack = NEW._replace(site=str(tmp_path), examples=str(tmp_path))

    text = list_tasks(stack, [str(tmp_path)], lambda: ["datasets", "evaluate", "scikit-learn"])

    assert "words in any order (fails with transformers 5.23.0)\n" in text
    assert "next words\n" in text and "masked words (lacks its script)\n" in text
    assert "lacks its script" not in list_tasks(stack._replace(examples=None), [], lambda: [])


@pytest.mark.parametrize(
    ("datasets", "more", "said"),
    [("4.8.0", [], " (lacks torchcodec)"), ("4.8.0", ["torchcodec"], ""), ("3.6.0", [], "")],
)
def test_the_list_says_what_decodes_sound(tmp_path: Path, datasets: str, more: list[str], said: str) -> None:
    (tmp_path / f"datasets-{datasets}.dist-info").mkdir()
    there = ["datasets", "evaluate", "librosa", "jiwer", "torchvision", *more]
    text = list_tasks(NEW._replace(examples=None), [str(tmp_path)], lambda: there)
    assert f"spoken commands{said}\n" in text and f"speech to text{said}\n" in text
    assert f"speech without its text{said}\n" in text and "masked images\n" in text


def test_the_list_names_all_and_what_cannot_run() -> None:
    text = list_tasks(NEW._replace(transformers="4.38.2"), [], lambda: ["datasets", "evaluate", "scikit-learn"])
    assert all(task.script in text for task in TASKS.values())
    assert "words in the middle (needs transformers 4.39)\n" in text
    assert "named entities (lacks seqeval)\n" in text
    assert "extractive question answering (lacks its script)\n" in text
    assert "--source_prefix 'translate English to Romanian: ' --source_lang" in text


@pytest.mark.parametrize(
    ("given", "version", "remedy"),
    [
        ({"dataset_name": "conll2003"}, "4.0.0", "--dataset_name lhoestq/conll2003"),
        *(({"dataset_name": name}, "5.0.0", other or "in Parquet") for name, other in SCRIPTS.items()),
        ({"dataset_name": "conll2003"}, "3.6.0", None),
        ({"dataset_name": "conll2003"}, None, None),
        ({"dataset_name": "lhoestq/conll2003"}, "5.0.0", None),
        ({}, "5.0.0", None),
    ],
)
def test_data_sets_that_are_scripts(given: dict[str, object], version: str | None, remedy: str | None) -> None:
    check_dataset(given, version, lambda path: True)
    if remedy is None:
        return check_dataset(given, version, lambda path: False)
    with pytest.raises(Refusal, match="is a script") as caught:
        check_dataset(given, version, lambda path: False)
    assert remedy in caught.value.remedy and "PIP_CONSTRAINT= pip install 'datasets<4'" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "given", "remedy"),
    [
        ("mae", {"train_dir": "/d/cats"}, "--dataset_name /d/cats in its place"),
        ("mim-no-trainer", {"validation_dir": "/d/cats"}, "--dataset_name /d/cats in its place"),
        ("mim", {"train_dir": "/d/cats/**", "dataset_name": "imagefolder"}, None),
        ("mim", {"dataset_name": "/d/cats"}, None),
        ("image-classification", {"train_dir": "/d/cats"}, None),
    ],
)
def test_a_directory_is_no_part_of_cifar10(name: str, given: dict[str, object], remedy: str | None) -> None:
    if remedy is None:
        return check_directory(name, given)
    with pytest.raises(Refusal, match="does not load a directory of images") as caught:
        check_directory(name, given)
    assert caught.value.value.endswith("_dir /d/cats") and caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("given", "version", "there", "hidden"),
    [
        ({"dataset_name": "squad"}, "5.0.0", "squad/squad.py", True),
        ({"dataset_name": "/data/mine/"}, "4.0.0", "/data/mine/mine.py", True),
        ({"dataset_name": "squad"}, "5.0.0", "accuracy/accuracy.py", False),
        ({"dataset_name": "rajpurkar/squad"}, "5.0.0", "squad/squad.py", False),
        ({"dataset_name": "squad"}, "3.6.0", "squad/squad.py", False),
        ({"dataset_name": "squad"}, None, "squad/squad.py", False),
        ({}, "5.0.0", "/.py", False),
    ],
)
def test_a_script_hides_a_data_set(given: dict[str, object], version: str | None, there: str, hidden: bool) -> None:
    if not hidden:
        return check_hidden(given, version, lambda path: path == there)
    with pytest.raises(Refusal, match="hides the data set") as caught:
        check_hidden(given, version, lambda path: path == there)
    assert caught.value.value.startswith(there) and "/workspace/metrics/" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "environ", "place"),
    [
        ("summarization", {"HF_HOME": "/hf"}, "/hf/nltk_data"),
        ("summarization", {"HF_HOME": "/hf", "NLTK_DATA": "/mine"}, None),
        ("summarization", {"HF_HOME": "/other"}, None),
        ("qa", {"HF_HOME": "/hf"}, None),
    ],
)
def test_data_of_nltk_that_were_fetched(name: str, environ: dict[str, str], place: str | None) -> None:
    found = find_nltk(name, environ, lambda path: path == "/hf/nltk_data")
    assert [(each.name, each.value) for each in found] == ([("NLTK_DATA", place)] if place else [])


@pytest.mark.parametrize(
    ("value", "on"),
    [
        *((value, True) for value in ("1", "on", "Yes", "TRUE")),
        *((value, False) for value in ("", "0", "no", "t", "2")),
    ],
)
def test_a_variable_of_the_hub_has_fewer_words_than_a_flag(value: str, *, on: bool) -> None:
    found = find_switched_on({"HF_HUB_OFFLINE": value}, ("TRANSFORMERS_OFFLINE", "HF_HUB_OFFLINE"))
    assert found == ("HF_HUB_OFFLINE" if on else None)


def test_no_default_of_a_text_task_is_a_script() -> None:
    defaults = {task.directory: task.defaults.split() for task in TASKS.values()}
    assert {directory for directory, words in defaults.items() if set(words) & SCRIPTS.keys()} == {
        "audio-classification", "contrastive-image-text", "speech-recognition",
    }  # fmt: skip


PUNKT, TAB = "tokenizers/punkt", "tokenizers/punkt_tab"
ASKS = 'nltk.data.find("tokenizers/punkt")\nnltk.download("punkt")'
BEAMS = {"predict_with_generate": True}


@pytest.mark.parametrize(
    ("name", "source", "given", "version", "wanted"),
    [
        ("summarization", ASKS, BEAMS, "3.10.0", {PUNKT: True, TAB: False}),
        ("summarization", ASKS, BEAMS, "3.8.2", {PUNKT: True, TAB: False}),
        ("summarization", ASKS, BEAMS, None, {PUNKT: True, TAB: False}),
        ("summarization", ASKS, BEAMS, "3.8.1", {PUNKT: True}),
        ("summarization", ASKS, {}, "3.10.0", {PUNKT: True}),
        ("summarization", ASKS, {"predict_with_generate": "False"}, "3.10.0", {PUNKT: True}),
        ("summarization-no-trainer", ASKS, {}, "3.10.0", {PUNKT: True, TAB: False}),
        ("summarization", "nltk.download('punkt_tab')", BEAMS, "3.10.0", {TAB: True}),
        ("summarization", ASKS + "; nltk.download('punkt_tab')", BEAMS, "3.10.0", {PUNKT: True, TAB: True}),
        ("qa", ASKS, BEAMS, "3.10.0", {}),
    ],
)
def test_data_of_nltk_that_a_task_reads(
    name: str, source: str, given: dict[str, object], version: str | None, wanted: dict[str, bool]
) -> None:
    assert list_nltk(name, source, given, version) == wanted


@pytest.mark.parametrize(
    ("wanted", "environ", "there", "said"),
    [
        ({PUNKT: True}, {}, "", "downloads tokenizers/punkt of nltk"),
        ({PUNKT: True, TAB: True}, {}, "", "downloads tokenizers/punkt and tokenizers/punkt_tab of nltk"),
        ({PUNKT: True, TAB: False}, {}, "/usr/share/nltk_data/tokenizers/punkt_tab", "downloads tokenizers/punkt of"),
        ({PUNKT: True}, {}, "/usr/share/nltk_data/tokenizers/punkt", None),
        ({PUNKT: True}, {"NLTK_DATA": "/a:/b"}, "/b/tokenizers/punkt.zip", None),
        ({PUNKT: True}, {"HOME": "/h", "HF_HUB_OFFLINE": "1"}, "/h/nltk_data/tokenizers/punkt", None),
        ({}, {"HF_HUB_OFFLINE": "1"}, "", None),
    ],
)
def test_data_of_nltk(wanted: dict[str, bool], environ: dict[str, str], there: str, said: str | None) -> None:
    notes = check_nltk("summarization", wanted, environ, lambda path: path == there)
    assert bool(notes) == bool(said) and (said or "") in "".join(notes)


@pytest.mark.parametrize(
    ("environ", "there", "fact", "value"),
    [
        ({"TRANSFORMERS_OFFLINE": "true"}, "", "may not download", f"{PUNKT}, {TAB}, TRANSFORMERS_OFFLINE=true"),
        ({"HF_HUB_OFFLINE": "1"}, PUNKT, "may not download", f"{TAB}, HF_HUB_OFFLINE=1"),
        ({}, PUNKT, "its script does not download", TAB),
        ({}, "", "its script does not download", TAB),
    ],
)
def test_data_of_nltk_that_nobody_will_download(environ: dict[str, str], there: str, fact: str, value: str) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        check_nltk("summarization", {PUNKT: True, TAB: False}, environ, lambda path: path.endswith(f"/{there}"))
    assert caught.value.value == value and caught.value.code == 2
    assert "`prefetch summarization`" in caught.value.remedy and f"{PUNKT} and {TAB}" in caught.value.remedy
