"""Teach a small model to tell the section of a Debian package from its description: `IMAGE train.py --bf16`."""

import argparse
import os

from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="/workspace/data", help="the directory with model/, train.json and test.json")
parser.add_argument("--texts", type=int, help="how many of train.json to learn from; default: all")
parser.add_argument("--epochs", type=float, default=1)
parser.add_argument("--batch", type=int, default=32, help="examples of a step, on all ranks together")
parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, where the processor has units for it")
options = parser.parse_args()

data = load_dataset("json", data_files={part: f"{options.data}/{part}.json" for part in ("train", "test")})
sections = sorted(set(data["train"]["section"]))
data["train"] = data["train"].select(range(len(data["train"]))[: options.texts])
tokenizer = AutoTokenizer.from_pretrained(f"{options.data}/model")
data = data.map(
    lambda rows: {**tokenizer(rows["text"]), "label": [sections.index(name) for name in rows["section"]]},
    batched=True,
    remove_columns=["text", "section"],
)
# Texts of like length go into one batch: less is padded, and a step takes two thirds of the time.
by_length: dict[str, object] = {"train_sampling_strategy": "group_by_length"}
if not hasattr(TrainingArguments, "train_sampling_strategy"):  # before transformers 5
    by_length = {"group_by_length": True}
model = AutoModelForSequenceClassification.from_pretrained(
    f"{options.data}/model", num_labels=len(sections), id2label=dict(enumerate(sections))
)
arguments = TrainingArguments(
    os.environ.get("MULTINODE_OUTPUT", "/workspace/output"),
    num_train_epochs=options.epochs,
    per_device_eval_batch_size=64,
    per_device_train_batch_size=options.batch // int(os.environ.get("WORLD_SIZE", "1")),
    learning_rate=2e-4,
    warmup_steps=20,
    logging_steps=32,
    bf16=options.bf16,
    use_cpu=True,
    save_strategy="epoch",
    report_to="none",
    **by_length,
)
trainer = Trainer(
    model,
    arguments,
    train_dataset=data["train"],
    eval_dataset=data["test"],
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=lambda outcome: {"accuracy": float((outcome.predictions.argmax(-1) == outcome.label_ids).mean())},
)
trained = trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)
accuracy = trainer.evaluate()["eval_accuracy"]
if trainer.is_world_process_zero():
    speed = trained.metrics["train_samples_per_second"]
    learned = f"{options.epochs:g} epoch(s) of {len(data['train'])} texts, {speed:.0f} a second"
    print(f"accuracy {accuracy:.3f} after {learned}, on {len(data['test'])} texts that it has not seen")
