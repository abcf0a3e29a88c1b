"""What ranks run in a container: models of all kinds train with a Trainer, and a step is compared with one batch.

The batch of a step is the same for all: in one piece without a Trainer, divided between ranks, or one after the other.
Each line that is printed is a kind of model, how far its gradients are from those of the one batch, and how many times
as long, with us and by the Trainer alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.models.mixtral import modeling_mixtral

WHOLE = 8  # examples of a step
SMALL = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64, "vocab_size": 50,
}  # fmt: skip
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SOUND = {
    "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (5, 4), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0,
    "activation_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0, "mask_time_prob": 0.0,
    "feat_extract_norm": "layer", "do_stable_layer_norm": True, "ctc_zero_infinity": True,
}  # fmt: skip


def bert(head: str, **options: Any) -> Callable[[], Any]:
    kind = getattr(transformers, f"BertFor{head}")
    return lambda: kind(transformers.BertConfig(**SMALL, **STILL, **options))


def t5() -> Any:
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    options = {"dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **options))


def gpt2() -> Any:
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"vocab_size": 50, "n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **still))


def mixtral() -> Any:
    router = {"num_local_experts": 4, "output_router_logits": True, "router_aux_loss_coef": 1.0}
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SMALL, num_key_value_heads=2, **router))


def wav2vec2(reduction: str) -> Callable[[], Any]:
    config = {**SOUND, "ctc_loss_reduction": reduction}
    return lambda: transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**config))


class Adapted(nn.Module):
    """A linear layer that is frozen, with an adapter of a low rank beside it, as LoRA has it."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 2, bias=False), nn.Linear(2, layer.out_features, bias=False)

    def forward(self, shown: Any) -> Any:
        return self.layer(shown) + self.up(self.down(shown))


def lora() -> Any:
    model = bert("TokenClassification", num_labels=2)().requires_grad_(False)
    attention = model.bert.encoder.layer[0].attention.self
    attention.query, attention.value = Adapted(attention.query), Adapted(attention.value)
    return model


class Sum(nn.Module):
    """A model of a user's that takes any keyword, and returns the sum over its labels."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(50, 8), nn.Linear(8, 2)

    def forward(self, input_ids: Any, labels: Any = None, attention_mask: Any = None, **more: Any) -> dict[str, Any]:
        logits = self.out(self.words(input_ids))
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100, reduction="none")
        return {"loss": self.reduce(losses, labels.ne(-100), more.get("num_items_in_batch")), "logits": logits}

    def reduce(self, losses: Any, counts: Any, number: Any) -> Any:
        return losses.sum()


class Largest(Sum):
    """One whose loss is that of the worst example: neither a sum nor a mean."""

    def reduce(self, losses: Any, counts: Any, number: Any) -> Any:
        return (losses.sum(1) / counts.sum(1)).max() * 1  # the Trainer changes it in its place


class Plain(Sum):
    """One that takes no keyword but those that it knows, and returns a mean."""

    def forward(  # type: ignore[override]
        self, input_ids: Any, labels: Any = None, attention_mask: Any = None
    ) -> dict[str, Any]:
        return super().forward(input_ids, labels)

    def reduce(self, losses: Any, counts: Any, number: Any) -> Any:
        return losses.sum() / counts.sum()


def tokens(draw: Any) -> dict[str, Any]:
    ids = torch.randint(3, 50, (int(torch.randint(3, 30, (1,), generator=draw)),), generator=draw)
    return {"input_ids": ids, "labels": ids % 2}


def words(draw: Any) -> dict[str, Any]:
    ids = tokens(draw)["input_ids"]
    return {"input_ids": ids, "labels": ids.clone()}


def masked(draw: Any) -> dict[str, Any]:
    ids = tokens(draw)["input_ids"]
    return {"input_ids": ids, "labels": torch.where(ids % 3 == 0, ids, -100).index_fill(0, torch.tensor([1]), 5)}


def of(kind: str) -> Callable[[Any], dict[str, Any]]:
    """Return what draws an example with one label, of a class, a number, or several classes."""

    def draw_one(draw: Any) -> dict[str, Any]:
        ids = tokens(draw)["input_ids"]
        labels = {"class": ids[0] % 2, "number": ids[0] / 50, "classes": ids[:3] % 2 * 1.0}
        return {"input_ids": ids, "labels": labels[kind]}

    return draw_one


def answers(draw: Any) -> dict[str, Any]:
    ids = tokens(draw)["input_ids"]
    padded = torch.cat([ids, torch.zeros(40 - len(ids), dtype=torch.long)])  # to one length, on which this loss depends
    return {"input_ids": padded, "start_positions": ids[0] % 3, "end_positions": ids[1] % 3}


def sound(draw: Any) -> dict[str, Any]:
    # Of one length each: torch's ctc_loss gives an example another loss beside one with more labels.
    return {"input_values": torch.randn(2000, generator=draw), "labels": tokens(draw)["input_ids"][:3] % 19 + 1}


# A model, what it learns from, and how far its gradients may be from those of the one batch; None: the Trainer's own.
KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], dict[str, Any]], float | None]] = {
    "classification": (bert("SequenceClassification"), of("class"), 1e-4),
    "regression": (bert("SequenceClassification", num_labels=1), of("number"), 1e-4),
    "several classes": (
        bert("SequenceClassification", num_labels=3, problem_type="multi_label_classification"), of("classes"), 1e-4,
    ),
    "tokens": (bert("TokenClassification", num_labels=2), tokens, 1e-4),
    "masked words": (bert("MaskedLM"), masked, 1e-4),
    "answers": (bert("QuestionAnswering"), answers, 1e-4),
    "T5": (t5, words, 1e-4),
    "GPT-2": (gpt2, words, 1e-4),
    "LoRA": (lora, tokens, 2e-3),
    "CTC, sum": (wav2vec2("sum"), sound, 1e-3),
    "CTC, mean": (wav2vec2("mean"), sound, 1e-3),
    "router": (mixtral, words, 0.5),
    "own mean without **kwargs": (Plain, tokens, 1e-4),
    "own largest": (Largest, tokens, None),
}  # fmt: skip


BALANCED = 1e-4  # the same of a router over ranks: batches in turn are balanced each by itself


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Pad to the longest."""
    batch = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        fill = -100 if name == "labels" else 0
        padded = nn.utils.rnn.pad_sequence(values, True, fill) if values[0].dim() else torch.stack(values)
        batch[name] = padded
    if "input_ids" in batch:
        batch["attention_mask"] = batch["input_ids"].ne(0).long()
    return batch


BALANCE = modeling_mixtral.load_balancing_loss_func


class Alone(Trainer):
    """A Trainer as it is without us."""

    compute_loss = Trainer.compute_loss.__wrapped__


def prepare(model: Any, rows: list[dict[str, Any]], kind: type, accumulation: int, **more: Any) -> Any:
    """Return a Trainer that makes one step of SGD, whose rate is one."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    options = {"learning_rate": 1.0, "lr_scheduler_type": "constant", "optim": "sgd", "max_grad_norm": 0.0}
    quiet = {"report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    size = {"per_device_train_batch_size": WHOLE // ranks // accumulation, "gradient_accumulation_steps": accumulation}
    fixed = {"use_cpu": True, "max_steps": 1, "remove_unused_columns": False}
    args = TrainingArguments("/tmp/losses", **fixed, **options, **quiet, **size, **more)
    trainer = kind(model, args, train_dataset=rows, data_collator=collate)
    trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(rows)
    return trainer


def learn(make: Callable[[], Any], rows: list[dict[str, Any]], kind: type, accumulation: int) -> Any:
    """Return the gradients of a step, by what SGD changes."""
    torch.manual_seed(0)
    model = make()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    before = [weight.detach().clone() for weight in weights]
    prepare(model, rows, kind, accumulation).train()
    return torch.cat([(old - new.detach()).flatten() for old, new in zip(before, weights, strict=True)])


def compute(make: Callable[[], Any], rows: list[dict[str, Any]]) -> Any:
    """Return the gradients of the one batch, as a Trainer in one process has them."""
    torch.manual_seed(0)
    model, batch = make(), collate(rows)
    trainer = prepare(model, rows, Alone, 1, average_tokens_across_devices=False)
    number = trainer._get_num_items_in_batch([batch], torch.device("cpu"))
    outputs = model(**batch) if number is None else model(**batch, num_items_in_batch=number)
    (outputs["loss"] if isinstance(outputs, dict) else outputs[0]).backward()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.cat(
        [(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).flatten() for parameter in weights]
    )


def main(*names: str) -> None:
    """Compare kinds; of one rank with accumulation only."""
    transformers.logging.set_verbosity_error()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    for name, (make, draw, most) in KINDS.items():
        if names and name not in names:
            continue
        generator = torch.Generator().manual_seed(3)
        rows = [draw(generator) for _ in range(WHOLE)]
        usual = compute(make, rows)
        for accumulation in (1, 2) if ranks > 1 else (4,):
            if most is None and ranks * accumulation == WHOLE:
                continue  # the worst of one example is the mean, too
            modeling_mixtral.load_balancing_loss_func = BALANCE
            theirs, ours = (learn(make, rows, kind, accumulation) for kind in (Alone, Trainer))
            error = float((ours - usual).norm() / usual.norm())
            times, alone = (float(gradients.norm() / usual.norm()) for gradients in (ours, theirs))
            place = f"{name}, {ranks} x {accumulation}"
            if os.environ.get("RANK", "0") == "0":
                print(f"{place}: off by {error:.5f}, {times:.2f} times; alone {alone:.2f} times", flush=True)
            allowed = BALANCED if name == "router" and accumulation == 1 else most
            assert error <= allowed if allowed is not None else torch.equal(ours, theirs), place
    if os.environ.get("RANK", "0") == "0":
        print(f"{len(names or KINDS)} kinds of losses are well", flush=True)
