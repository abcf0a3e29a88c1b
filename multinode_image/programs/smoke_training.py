"""What `smoke` trains: a tiny question-answering model, on questions made on the spot, with a clock beside it."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForQuestionAnswering, TrainerCallback, set_seed

from multinode_image.programs.smoke_checks import SEED

LENGTH = 32
WORDS = 256
CLS, SEP, OPENS, CLOSES, FIRST_WORD = 1, 2, 3, 4, 8


class Questions(Dataset[dict[str, torch.Tensor]]):
    """Random words with two quotation marks among them; the answer is what is between."""

    def __init__(self, count: int, seed: int) -> None:
        """Draw all of them at once from a generator of their own."""
        random = torch.Generator().manual_seed(seed)
        self.words = torch.randint(FIRST_WORD, WORDS, (count, LENGTH), generator=random)
        self.starts = torch.randint(1, LENGTH - 3, (count,), generator=random)
        width = torch.randint(1, 8, (count,), generator=random)
        self.ends = torch.minimum(self.starts + width, torch.tensor(LENGTH - 2))
        rows = torch.arange(count)
        self.words[:, 0], self.words[:, -1] = CLS, SEP
        self.words[rows, self.starts], self.words[rows, self.ends] = OPENS, CLOSES

    def __len__(self) -> int:
        """Count the questions."""
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one question as the model takes it: tensors of LENGTH words, and two positions."""
        return {
            "input_ids": self.words[index],
            "attention_mask": torch.ones(LENGTH, dtype=torch.long),
            "start_positions": self.starts[index],
            "end_positions": self.ends[index],
        }


class Clock(TrainerCallback):
    """Measure the training loop in seconds."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.began = self.seconds = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Print when the first step is done: the gradients of all ranks are in it."""
        if state.global_step == 1 and state.is_world_process_zero:
            print(f"smoke: first step done {age():.1f} s after the start", file=sys.stderr, flush=True)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        self.seconds = time.perf_counter() - self.began


def age() -> float:
    """Return the seconds since this process was started, the entrypoint's among them (proc(5), starttime)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def make_model() -> DistilBertForQuestionAnswering:
    """Build the model from its configuration alone, the same on every rank."""
    set_seed(SEED)
    shape: dict[str, Any] = {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": WORDS}
    quiet = {"dropout": 0.0, "attention_dropout": 0.0, "qa_dropout": 0.0}
    return DistilBertForQuestionAnswering(DistilBertConfig(max_position_embeddings=LENGTH, **shape, **quiet))


@torch.no_grad()
def measure_loss(model: torch.nn.Module) -> float:
    """Average the loss over questions that the training never sees."""
    questions = Questions(256, SEED + 1)
    model.eval()
    batch = {name: torch.stack([row[name] for row in map(questions.__getitem__, range(256))]) for name in questions[0]}
    return float(model(**batch).loss)


def digest_weights(model: torch.nn.Module) -> str:
    """Return a hash of every weight, to the last bit."""
    digest = hashlib.sha256()
    for name, weights in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weights.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
