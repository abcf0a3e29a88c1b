"""The private copies of scripts: data sets with their owners, and the checkpoint to go on from."""

from __future__ import annotations

import pytest

from entrypoint.machine.image import Stack
from entrypoint.needs.copies import copy_script, name_owners, read_resume
from entrypoint.tasks.command import Program

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/w", "")
# A training as in the scripts for CTC.
CTC = """
def main():
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    "é"; trainer = Trainer(model=model, args=training_args)
    checkpoint = model_args.model_name_or_path if os.path.isdir(model_args.model_name_or_path) else None
    "é"; train_result = trainer.train(resume_from_checkpoint=checkpoint)  # é
"""
MENDED = CTC.replace("=checkpoint)", "=training_args.resume_from_checkpoint)")


@pytest.mark.parametrize(
    ("source", "there", "transformers", "copy"),
    [
        ('load_dataset("xnli", language)', "", "5.0.0", 'load_dataset("facebook/xnli", language)'),
        ("datasets.load_dataset(\n    'swag',\n)", "", "5.23.0", "datasets.load_dataset(\n    'allenai/swag',\n)"),
        ('load_dataset("xnli", language)', "", "4.57.6", None),
        ('load_dataset("xnli", language)', "xnli", "5.0.0", None),
        ('load_dataset("csv", data_files=files)', "", "5.0.0", None),
        ('load_dataset("nyu-mll/glue", name)', "", "5.0.0", None),
        ('load_dataset(dataset_name); evaluate.load("xnli"); print("xnli")', "", "5.0.0", None),
    ],
)
def test_data_sets_in_a_script_get_their_owners(source: str, there: str, transformers: str, copy: str | None) -> None:
    text, moved = name_owners(source, NEW._replace(transformers=transformers), lambda path: path == there)
    assert text == (copy or source)
    assert bool(moved) == (copy is not None) and all(new.endswith(f"/{old}") for old, new in moved.items())


@pytest.mark.parametrize(
    ("source", "copy"),
    [
        (CTC, MENDED),
        (CTC.replace("=checkpoint)", "=\n        checkpoint,\n    )"),
         CTC.replace("=checkpoint)", "=\n        training_args.resume_from_checkpoint,\n    )")),
        (CTC.replace("\n", "\r\n"), MENDED.replace("\n", "\r\n")),
        (MENDED, None),
        (CTC.replace("    checkpoint =", "    checkpoint = training_args.resume_from_checkpoint or"), None),
        (CTC.replace("    checkpoint =", "    train = training_args\n    checkpoint = train.resume_from_checkpoint or"),
         None),
        (CTC.replace("training_args", "args"), None),
        (CTC.replace("=checkpoint)", "=None)"), None),
        (CTC.replace("resume_from_checkpoint=checkpoint", ""), None),
        (CTC.replace("trainer.train(", "trainer.evaluate("), None),
        (CTC + "print 1", None),
    ],
)  # fmt: skip
def test_a_script_reads_from_which_checkpoint_it_goes_on(source: str, copy: str | None) -> None:
    assert read_resume(source) == ((source, []) if copy is None else (copy, ["checkpoint"]))


def test_one_copy_has_every_change_and_a_note_on_each() -> None:
    source = CTC + 'load_dataset("xnli")\n'
    made = copy_script("ctc", Program(["/w/ctc.py", "--do_train"], [], {}), source, NEW)
    ((copy, text),) = made.files.items()
    assert made.words == [copy, "--do_train"] and text == MENDED + 'load_dataset("facebook/xnli")\n'
    owner, resume = made.notes
    assert "load_dataset('facebook/xnli') in a private copy of the script" in owner
    assert "train(resume_from_checkpoint=checkpoint) became train(resume_from_checkpoint=training_args." in resume
    assert "takes any directory with a model for a checkpoint" in resume


def test_a_script_without_a_change_is_not_copied() -> None:
    program = Program(["/w/clm.py"], [], {})
    assert copy_script("clm", program, MENDED, NEW) is program
