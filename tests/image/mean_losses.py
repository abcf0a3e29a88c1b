"""What a rank of two runs in a container: losses of many kinds, of a Trainer that does what the real one does."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, "/opt/multinode")

from entrypoint.hooks import mean_loss

LABELS = torch.tensor([[1, 2, -100], [3, -100, -100]])
MINE, ALL, RANKS = 3, torch.tensor(4), 2  # labels of this rank's batch, and of all ranks


class Mean(torch.nn.Module):
    """A model that takes the number of labels and returns the mean of its own batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(12.0))

    def forward(self, labels: Any, num_items_in_batch: Any = None) -> Any:
        return self.weight * labels.ne(-100).sum() / MINE


class Divides(Mean):
    """One that returns its part of the loss of all ranks."""

    def forward(self, labels: Any, num_items_in_batch: Any = None) -> Any:
        return self.weight * labels.ne(-100).sum() / num_items_in_batch


class HandsOn(Mean):
    """One that only moves the number, as BERT does."""

    def forward(self, labels: Any, num_items_in_batch: Any = None) -> Any:
        return super().forward(labels, num_items_in_batch.to("cpu"))


def compiled(kind: type) -> Any:
    return torch.compile(kind(), backend="eager", fullgraph=True)


def in_place(kind: type) -> Any:
    model = kind()
    model.compile(backend="eager", fullgraph=True)
    return model


class Trainer:
    """As that of transformers: a loss is to be divided by the labels of all ranks, and is multiplied by the ranks."""

    model_accepts_loss_kwargs, compute_loss_func = True, None
    accelerator = SimpleNamespace(unwrap_model=lambda model: model)

    def __init__(self, model: Any, **more: Any) -> None:
        fixed = {"world_size": RANKS, "average_tokens_across_devices": True, "torch_compile": False}
        self.model, self.args = model, SimpleNamespace(**{**fixed, **more})

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        times = self.args.world_size if self.args.average_tokens_across_devices else 1
        loss = model(inputs["labels"], num_items_in_batch=num_items_in_batch) * times
        return (loss, "outputs") if return_outputs else loss


# A model, what its Trainer is told, and the loss: 12 for each of 3 labels of 4, times the ranks that DDP divides by.
CASES: dict[str, tuple[Any, dict[str, Any], float]] = {
    "mean": (Mean(), {}, 18.0),
    "divides": (Divides(), {}, 18.0),
    "hands on": (HandsOn(), {}, 18.0),
    "own average": (Mean(), {"average_tokens_across_devices": False}, 12.0),
    "one rank": (Mean(), {"world_size": 1}, 12.0),
    "compiled mean": (compiled(Mean), {}, 18.0),
    "compiled, divides": (compiled(Divides), {}, 18.0),
    "compiled, hands on": (compiled(HandsOn), {}, 18.0),
    "compiled in place": (in_place(Mean), {}, 18.0),
    "compiled by the Trainer": (compiled(Mean), {"torch_compile": True}, 18.0),
}


def main() -> None:
    """Compute the loss of two batches of each case."""
    os.environ["RANK"] = "0"
    mean_loss.weigh_losses(SimpleNamespace(Trainer=Trainer))
    for name, (model, more, expected) in CASES.items():
        trainer = Trainer(model, **more)
        for both in (False, True):
            result = trainer.compute_loss(model, {"labels": LABELS}, both, ALL)
            loss = result[0] if both else result
            assert type(loss) is torch.Tensor and float(loss) == expected, f"{name}: {loss}"
            loss.backward()
    print(f"{len(CASES)} losses are well")


if __name__ == "__main__":
    main()
