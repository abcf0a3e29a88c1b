"""The tasks: a name for each example script of transformers, with the defaults of its documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .errors import Refusal
from .flags import Flag, has_ccl, plain, split_flags, translate

if TYPE_CHECKING:
    from .stack import Stack

FOLDER = "examples/pytorch"
OUTPUT = "/workspace/output"


class Task(NamedTuple):
    """A script below examples/pytorch, its defaults as a command line, and what it trains.

    trainer: it takes the flags of the Trainer, and can be trained by many.
    """

    script: str
    defaults: str
    about: str
    trainer: bool = True


TRAIN = "--do_train --do_eval "
SQUAD = (
    "--per_device_train_batch_size {} --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 --doc_stride 128"
)
WIKITEXT = "--dataset_name Salesforce/wikitext --dataset_config_name wikitext-2-raw-v1 " + TRAIN
BATCH_8 = "--per_device_train_batch_size 8 --per_device_eval_batch_size 8"
LM = "language-modeling/"

# qa has the defaults of the Hugging Face guide to distributed CPUs, the others those of the example's own README.
# A ~ stands for a space within one value.
TASKS = {
    "qa": Task(
        "question-answering/run_qa.py",
        "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name squad " + TRAIN + SQUAD.format(12),
        "extractive question answering",
    ),
    "qa-beam": Task(
        "question-answering/run_qa_beam_search.py",
        "--model_name_or_path xlnet/xlnet-large-cased --dataset_name squad " + TRAIN + SQUAD.format(4),
        "extractive question answering, beam search",
    ),
    "qa-seq2seq": Task(
        "question-answering/run_seq2seq_qa.py",
        "--model_name_or_path google-t5/t5-small --dataset_name squad_v2 --context_column context "
        "--question_column question --answer_column answers " + TRAIN + SQUAD.format(12),
        "generative question answering",
    ),
    "glue": Task(
        "text-classification/run_glue.py",
        "--model_name_or_path google-bert/bert-base-cased --task_name mrpc " + TRAIN + "--max_seq_length 128 "
        "--per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3",
        "sentence pairs of the GLUE benchmark",
    ),
    "classification": Task(
        "text-classification/run_classification.py",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name stanfordnlp/imdb --metric_name accuracy "
        "--text_column_names text --label_column_name label --shuffle_train_dataset " + TRAIN + "--max_seq_length 512 "
        "--per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 1",
        "classification of any text",
    ),
    "xnli": Task(
        "text-classification/run_xnli.py",
        "--model_name_or_path google-bert/bert-base-multilingual-cased --language de --train_language en " + TRAIN
        + "--max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 5e-5 --num_train_epochs 2",
        "inference across languages",
    ),
    "ner": Task(
        "token-classification/run_ner.py",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name conll2003 " + TRAIN,
        "named entities",
    ),
    "mlm": Task(
        LM + "run_mlm.py", "--model_name_or_path FacebookAI/roberta-base " + WIKITEXT + BATCH_8, "masked words"
    ),
    "clm": Task(LM + "run_clm.py", "--model_name_or_path openai-community/gpt2 " + WIKITEXT + BATCH_8, "next words"),
    "plm": Task(
        LM + "run_plm.py", "--model_name_or_path xlnet/xlnet-base-cased " + WIKITEXT + BATCH_8, "words in any order"
    ),
    "fim": Task(
        LM + "run_fim.py",
        "--model_name_or_path openai-community/gpt2 --fim_rate 0.5 --fim_spm_rate 0.2 " + WIKITEXT + BATCH_8,
        "words in the middle",
    ),
    "swag": Task(
        "multiple-choice/run_swag.py",
        "--model_name_or_path FacebookAI/roberta-base " + TRAIN + "--learning_rate 5e-5 --num_train_epochs 3 "
        "--per_device_train_batch_size 16 --per_device_eval_batch_size 16",
        "multiple choice",
    ),
    "summarization": Task(
        "summarization/run_summarization.py",
        "--model_name_or_path google-t5/t5-small --dataset_name abisee/cnn_dailymail --dataset_config 3.0.0 "
        "--source_prefix summarize:~ --predict_with_generate " + TRAIN
        + "--per_device_train_batch_size 4 --per_device_eval_batch_size 4",
        "summaries of news",
    ),
    "translation": Task(
        "translation/run_translation.py",
        "--model_name_or_path google-t5/t5-small --source_lang en --target_lang ro --dataset_name wmt/wmt16 "
        "--dataset_config_name ro-en --source_prefix translate~English~to~Romanian:~ --predict_with_generate " + TRAIN
        + "--per_device_train_batch_size 4 --per_device_eval_batch_size 4",
        "English to Romanian",
    ),
    "generation": Task(
        "text-generation/run_generation.py",
        "--model_type gpt2 --model_name_or_path openai-community/gpt2",
        "text from a prompt",
        trainer=False,
    ),
}  # fmt: skip

# A default that makes no sense beside another flag of the user's.
UNLESS = {
    "dataset_name": ("train_file", "validation_file", "test_file", "task_name"),
    "dataset_config_name": ("dataset_name", "train_file", "validation_file"),
    "dataset_config": ("dataset_name", "dataset_config_name", "train_file", "validation_file"),
    "task_name": ("dataset_name", "train_file", "validation_file"),
    "use_cpu": ("no_cuda",),
    "no_cuda": ("use_cpu",),
}


class Arguments(NamedTuple):
    """A command line for a task, and one line for each flag that was translated."""

    words: list[str]
    notes: list[str]
    output: str | None


def find_script(name: str, stack: Stack, script: str) -> str:
    """Locate the script of a task in the image."""
    if stack.examples is None:
        remedy = (
            f"python build.py --transformers {stack.transformers} --examples <archive, folder or URL of transformers>"
        )
        raise Refusal(
            "this image was built without the examples of transformers, which has the task's script", name, remedy
        )
    return f"{stack.examples}/{FOLDER}/{script}"


def arguments(name: str, task: Task, typed: list[str], stack: Stack, *, many: bool) -> Arguments:
    """Put together the user's arguments, translated for the installed release, and the defaults they leave.

    A lone JSON file is passed through: it has to say everything, and the scripts take nothing beside it.
    """
    if len(typed) == 1 and typed[0].endswith(".json"):
        return Arguments(typed, [], None)
    if not task.trainer:
        return Arguments([*default_words(task.defaults, typed), *typed], [], None)
    flags, notes = translate(split_flags(typed), stack)
    given = {plain(flag.name) for flag in flags}
    needed = [Flag("use_cpu", ())]
    if many and has_ccl(stack):
        needed.append(Flag("ddp_backend", ("ccl",)))
    needed, _ = translate(needed, stack)
    output = [Flag("output_dir", (f"{OUTPUT}/{name}",))]
    defaults = [*read_defaults(task.defaults), *output, *needed]
    left = [flag for flag in defaults if not given & {flag.name, *UNLESS.get(flag.name, ())}]
    words = [word for flag in (*left, *flags) for word in flag.words()]
    return Arguments(words, notes, find_output([*left, *flags]))


def read_defaults(text: str) -> list[Flag]:
    """Read the defaults of a task as flags."""
    return [
        flag._replace(values=tuple(value.replace("~", " ") for value in flag.values))
        for flag in split_flags(text.split())
    ]


def default_words(text: str, typed: list[str]) -> list[str]:
    """Spell the defaults that the user did not replace."""
    given = {plain(flag.name) for flag in split_flags(typed)}
    return [word for flag in read_defaults(text) if flag.name not in given for word in flag.words()]


def find_output(flags: list[Flag]) -> str | None:
    """Find the folder where the results will go; the last one typed counts."""
    return next((flag.values[0] for flag in reversed(flags) if plain(flag.name) == "output_dir" and flag.values), None)


def list_tasks(stack: Stack) -> str:
    """Write a table of all tasks, with script and defaults."""
    lines = [f"{name:15} {task.about}\n{'':15} {task.script} {task.defaults.replace('~', ' ').strip()}"
             for name, task in TASKS.items()]  # fmt: skip
    where = stack.examples or "none in this image: build it with --examples"
    return "\n".join(
        [f"{'smoke':15} a minute's training to see that all ranks work together, offline", *lines, f"examples: {where}"]
    )
