"""What the scripts of this directory share: models, data, and what each rank says at its end."""

import base64
import hashlib
import os
import random
import signal
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
OUTPUT = os.environ.get("MULTINODE_OUTPUT", "/workspace/output")
# The batch of a rank: that of a step is 16 on any number of ranks.
BATCH = 16 // WORLD
WORDS = [f"word{number}" for number in range(60)]
torch.manual_seed(1)


def make_texts(count):
    """Make texts of 4 to 12 words, the same ones on all ranks."""
    draw = random.Random(2)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(count)]


def make_tokenizer():
    """Make a tokenizer that knows our words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[EOS]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]", model_max_length=16
    )


def make_bert(**more):
    """Describe a small encoder without dropout: ranks draw other numbers than one process."""
    from transformers import BertConfig

    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return BertConfig(intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes, **more)


def make_llama():
    """Make a small decoder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(intermediate_size=64, bos_token_id=2, eos_token_id=2, pad_token_id=0, **sizes))


def make_points():
    """Make numbers to learn, the same ones on all ranks."""
    inputs = torch.randn(320, 8, generator=torch.Generator().manual_seed(3))
    return inputs, inputs.square().sum(1, keepdim=True)


def make_network():
    """Make a network for them."""
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def report(model, loss=0.0):
    """Print a digest of this rank's weights, which all ranks have to share, and the loss; rank 0 leaves the weights."""
    weights = torch.cat([weight.detach().flatten().float() for weight in model.state_dict().values()]).numpy().tobytes()
    print(f"\nrank {RANK} of {WORLD}: weights {hashlib.sha256(weights).hexdigest()[:16]} loss {loss:.6f}", flush=True)
    if not RANK:
        Path(OUTPUT).mkdir(parents=True, exist_ok=True)
        Path(OUTPUT, "weights").write_text(base64.b64encode(weights).decode())


def die(step=iter(range(1, 10**6))):  # noqa: B008
    """Be killed at a step, where a test says so."""
    if next(step) == int(os.environ["TEST_DIES_AT"]) and RANK == WORLD - 1:
        os.kill(os.getpid(), signal.SIGKILL)


if os.environ.get("TEST_DIES_AT"):
    register_optimizer_step_post_hook(lambda *_: die())
