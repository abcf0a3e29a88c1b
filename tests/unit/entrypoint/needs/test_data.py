"""The data of a task: data sets that are not loaded, and those of nltk."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.needs.data import (
    GONE,
    SCRIPTS,
    check_data,
    check_dataset,
    check_directory,
    check_gone,
    check_hidden,
    check_nltk,
    find_nltk,
    find_switched_on,
    list_nltk,
)
from entrypoint.tasks.tasks import TASKS

PUNKT, TAB = "tokenizers/punkt", "tokenizers/punkt_tab"
ASKS = 'nltk.data.find("tokenizers/punkt")\nnltk.download("punkt")'
BEAMS = {"predict_with_generate": True}


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
    assert remedy in caught.value.remedy
    assert "PIP_CONSTRAINT= pip install 'datasets<4' 'pandas<3' as USER root" in caught.value.remedy


@pytest.mark.parametrize(
    ("given", "there", "refused"),
    [
        ({"dataset_name": f"{GONE}17_0"}, "", True),
        ({"dataset_name": f"{GONE}13_0"}, "", True),
        ({"dataset_name": f"{GONE}17_0"}, f"{GONE}17_0", False),
        ({"dataset_name": f"{GONE}17_0"}, "/d/mozilla-foundation___common_voice_17_0", False),
        ({"dataset_name": f"{GONE}17_0"}, "/d/mozilla-foundation___common_voice_11_0", True),
        ({"dataset_name": f"{GONE}17_0", "cache_dir": "/c"}, "/c/mozilla-foundation___common_voice_17_0", False),
        ({"dataset_name": f"{GONE}17_0", "cache_dir": "/c"}, "/d/mozilla-foundation___common_voice_17_0", False),
        ({"dataset_name": "fsicoli/common_voice_17_0"}, "", False),
        ({}, "", False),
    ],
)
def test_a_data_set_that_has_gone_from_the_hub(given: dict[str, object], there: str, refused: bool) -> None:
    if not refused:
        return check_gone(given, "/d", lambda path: path == there)
    with pytest.raises(Refusal, match="no longer on the hub") as caught:
        check_gone(given, "/d", lambda path: path == there)
    assert caught.value.value == given["dataset_name"] and "datasets<4" not in caught.value.remedy


def test_another_hub_may_still_have_it() -> None:
    given = {"dataset_name": f"{GONE}17_0"}

    with pytest.raises(Refusal, match="no longer on the hub"):
        check_data("ctc", given, "3.6.0", {"HF_ENDPOINT": "https://huggingface.co/"}, lambda _: False)
    check_data("ctc", given, "3.6.0", {"HF_ENDPOINT": "https://mirror.example"}, lambda _: False)


@pytest.mark.parametrize(
    ("name", "given", "remedy"),
    [
        ("mae", {"train_dir": "/d/cats"}, "--dataset_name /d/cats in its place"),
        ("mim-no-trainer", {"validation_dir": "/d/cats"}, "--dataset_name /d/cats in its place"),
        ("image-classification-no-trainer", {"train_dir": "/d/cats"}, "--dataset_name /d/cats in its place"),
        ("image-classification-no-trainer", {"dataset_name": "/d/cats"}, None),
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
    ("given", "refused"),
    [
        ({"validation_dir": "/d/dogs"}, True),
        ({"validation_dir": "/d/dogs", "dataset_name": "beans"}, True),
        ({"validation_dir": "/d/dogs", "train_dir": "/d/cats"}, False),
        ({"train_dir": "/d/cats"}, False),
    ],
)
def test_classes_are_those_of_the_training_data(given: dict[str, object], refused: bool) -> None:
    if not refused:
        return check_directory("image-classification", given)
    with pytest.raises(Refusal, match="without one for training: --validation_dir /d/dogs") as caught:
        check_directory("image-classification", given)
    assert caught.value.remedy.startswith("--train_dir DIRECTORY")


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
        "audio-classification", "contrastive-image-text",
    }  # fmt: skip
    gone = {name for name, task in TASKS.items() if GONE in task.defaults}
    assert gone == {"ctc", "ctc-adapter", "speech-seq2seq"}


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
def test_data_of_nltk_that_are_downloaded_are_noted(
    wanted: dict[str, bool], environ: dict[str, str], there: str, said: str | None
) -> None:
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
