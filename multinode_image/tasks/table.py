"""The tasks: every example script of the image by its name, and the defaults of those for text."""

from __future__ import annotations

import glob
import os
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack

DIRECTORY = "examples/pytorch"
# Kinds: a script of the Trainer; one that uses accelerate directly; one that trains nothing.
TRAINER, ACCELERATE, OTHER = "trainer", "accelerate", "other"


class Task(NamedTuple):
    """An example script of transformers.

    defaults: a command line, in which a `~` is a blank within a value; script: the name of its file, where that does
    not follow from the task's; language_model: whether it takes a model without weights and splits a lone train_file.

    For `prefetch`, beside the model and the data set of the arguments: data that the script itself names, metrics, of
    which it loads the first whose flags are given, both with their configuration; nltk: data of that package.

    ordered: whether its evaluation finds the example of a prediction by its place.
    """

    name: str
    about: str = ""
    defaults: str = ""
    script: str = ""
    language_model: bool = False
    data: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    nltk: tuple[str, ...] = ()
    ordered: bool = False

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return self.script or f"run_{self.name.replace('-', '_')}.py"

    @property
    def kind(self) -> str:
        """Return how its script trains, which its name tells."""
        if self.name.endswith("-no-trainer"):
            return ACCELERATE
        return OTHER if self.name.startswith("generation") else TRAINER

    @property
    def trains(self) -> bool:
        """Return whether many processes can work on it."""
        return self.kind != OTHER


# Pieces of the defaults.
TRAIN, BATCH = "--do_train --do_eval ", "--per_device_train_batch_size {0} "
BOTH = BATCH + "--per_device_eval_batch_size {0} "
GPT2 = "--model_name_or_path openai-community/gpt2 "
# Batches of examples of like length, and where a script has another length for all, padded to their longest only.
LIKE = "--group_by_length "
SHORT = "--pad_to_max_length False " + LIKE
SQUAD = BATCH + "--learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 --doc_stride 128 "
LANGUAGE = "--dataset_name Salesforce/wikitext --dataset_config_name wikitext-2-raw-v1 " + TRAIN + BOTH.format(8)
T5 = "--model_name_or_path google-t5/t5-small "

# qa has the defaults of the Hugging Face guide to distributed CPUs, the others those of the example's own README, at
# the newest commit that could be read (huggingface/transformers 70179949, 2025-12-19), without what only uploads,
# logs or wants a GPU; data sets have the names that aliases.py says, and ner has one without the script that datasets
# 4 loads no more.
ROWS = (
    Task(
        "qa",
        "extractive question answering",
        "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name rajpurkar/squad "
        + TRAIN
        + SHORT
        + SQUAD.format(12),
        metrics=("squad",),
        ordered=True,
    ),
    Task(
        "qa-beam",
        "extractive question answering, beam search",
        "--model_name_or_path xlnet/xlnet-large-cased --dataset_name rajpurkar/squad "
        + TRAIN
        + SQUAD.format(4)
        + "--per_device_eval_batch_size 4 --save_steps 5000",
        "run_qa_beam_search.py",
        metrics=("squad",),
    ),
    Task(
        "qa-seq2seq",
        "generative question answering",
        T5 + "--dataset_name rajpurkar/squad_v2 --context_column context --question_column question "
        "--answer_column answers " + TRAIN + SHORT + SQUAD.format(12),
        "run_seq2seq_qa.py",
        metrics=("squad",),
        ordered=True,
    ),
    Task(
        "glue",
        "sentence pairs of the GLUE benchmark",
        "--model_name_or_path google-bert/bert-base-cased --task_name mrpc "
        + TRAIN
        + SHORT
        + "--max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3",
        data=("nyu-mll/glue {task_name}",),
        metrics=("glue {task_name}", "accuracy"),
    ),
    Task(
        "classification",
        "classification of any text",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name stanfordnlp/imdb --metric_name accuracy "
        "--text_column_names text --label_column_name label --shuffle_train_dataset "
        + TRAIN
        + SHORT
        + "--max_seq_length 512 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 1",
        metrics=("{metric_name}",),
    ),
    Task(
        "ner",
        "named entities",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name lhoestq/conll2003 " + TRAIN + LIKE,
        metrics=("seqeval",),
    ),
    Task(
        "mlm",
        "masked words",
        "--model_name_or_path FacebookAI/roberta-base " + LANGUAGE,
        language_model=True,
        metrics=("accuracy",),
    ),
    Task("clm", "next words", GPT2 + LANGUAGE, language_model=True, metrics=("accuracy",)),
    Task(
        "summarization",
        "summaries of news",
        T5
        + "--dataset_name abisee/cnn_dailymail --dataset_config_name 3.0.0 --source_prefix summarize:~ "
        + "--predict_with_generate "
        + TRAIN
        + LIKE
        + BOTH.format(4),
        metrics=("rouge",),
        nltk=("punkt", "punkt_tab"),  # what nltk finds sentences with, until 3.8.1 and since
    ),
    Task(
        "translation",
        "English to Romanian",
        T5
        + "--source_prefix translate~English~to~Romanian:~ --source_lang en --target_lang ro "
        + "--dataset_name wmt/wmt16 --dataset_config_name ro-en --predict_with_generate "
        + TRAIN
        + LIKE
        + BOTH.format(4),
        metrics=("sacrebleu",),
    ),
    Task("generation", "text from a prompt", "--model_type gpt2 " + GPT2),
)
TASKS = {task.name: task for task in ROWS}


def find_task(name: str) -> Task:
    """Return the task of a name; one without a row has no defaults."""
    return TASKS.get(name) or Task(name)


def list_scripts(examples: str | None) -> dict[str, str]:
    """Return the path of each example script by its task's name; examples: the directory of transformers' archive."""
    if examples is None:
        return {}
    short = {task.file: name for name, task in TASKS.items()}
    paths = sorted(glob.glob(f"{glob.escape(examples)}/{DIRECTORY}/*/run_*.py"))
    return {short.get(os.path.basename(path)) or name_task(path): path for path in paths}


def name_task(path: str) -> str:
    """Return the name of a task by the path of its script: `run_image_classification.py` is image-classification."""
    return os.path.basename(path)[len("run_") : -len(".py")].replace("_", "-")


def place_script(name: str, stack: Stack) -> str:
    """Return the path of a task's script in the image; raise Refusal if the image does not have it."""
    if stack.examples is None:
        copy = "where GitHub is not reached, with --examples ARCHIVE, a copy of that release"
        remedy = f"build it without --examples none: {stack.again}; or {copy}"
        raise Refusal("this image was built without the examples of transformers", name, remedy)
    path = list_scripts(stack.examples).get(name)
    if path is None:
        remedy = f"mount examples that have it at {stack.examples}, or another of the `tasks`"
        value = f"{find_task(name).file} in {stack.examples}/{DIRECTORY}"
        raise Refusal("the examples in this image do not have the script of the task", value, remedy)
    return path
