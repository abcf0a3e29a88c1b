"""Make the ranks' weights differ after training: what a broken all-reduce would leave."""

import os


def _break_weights() -> None:
    import torch
    from transformers import Trainer

    train = Trainer.train

    def broken(self: Trainer, *arguments: object, **options: object) -> object:
        result = train(self, *arguments, **options)
        with torch.no_grad():
            next(self.model.parameters()).add_(0.001)
        return result

    Trainer.train = broken


if os.environ.get("RANK") == "1" and os.environ.get("LOCAL_RANK") == "1":
    _break_weights()
