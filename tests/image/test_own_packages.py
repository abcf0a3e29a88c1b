"""An image with packages of the user's own: in its lock, started, and built again from what is inside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from images.lock import lockfile
from images.lock.lock import Lock
from images.plan.plan import Request
from tests.support.harness import EXAMPLES, build, built, call, run

# Two that need what the image has, and bring more.
FILE = "peft>=0.18  # adapters\n-r more.txt\n-c bounds.txt\n"
MORE, BOUNDS = {"more.txt": "tensorboard\n"}, {"bounds.txt": "protobuf<7\n"}
OTHERS = {"trl", "sentence-transformers", "lightning", "scikit-learn"}

# A step of LoRA, and what TensorBoard writes of it.
SCRIPT = """
import glob, torch
from peft import LoraConfig, get_peft_model
from torch.utils.tensorboard import SummaryWriter
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2))
model = get_peft_model(model, LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True))
tokens = torch.arange(16).reshape(1, 16)
optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=10.0)
losses = []
with SummaryWriter("/tmp/logs") as writer:
    for step in range(9):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        losses.append(loss.item()); writer.add_scalar("loss", losses[-1], step)
assert losses[-1] < losses[0], losses
print("events", len(glob.glob("/tmp/logs/events.*")))
"""


class Derived(NamedTuple):
    """An image, what was printed of it, the options that it was made with, and its lock."""

    name: str
    answer: dict[str, Any]
    options: tuple[str, ...]
    lock: Lock


@pytest.fixture(scope="module")
def derived(image: str, module_path: Path, module_tag: Callable[[str], str]) -> Derived:
    """Build one above the layers of the default image, as a user does."""
    for name, text in {"mine.txt": FILE, **MORE, **BOUNDS}.items():
        (module_path / name).write_text(text)
    name, layout = module_tag("own"), module_path / "own"
    options = ("--examples", str(EXAMPLES), "--requirements", str(module_path / "mine.txt"), "--tag", name)
    answer = built(*options, "--load", "--output", f"{layout}/")
    text = lockfile.path_for(layout).read_text()
    return Derived(name, answer, options, lockfile.read_lock(text, "the lock", Request()))


def test_they_train_in_it(derived: Derived) -> None:
    done = run(derived.name, "python", "-c", SCRIPT)

    assert (done.code, done.out.splitlines()[-1]) == (0, "events 1"), done.text


def test_they_are_in_its_lock_and_sbom_and_in_a_layer_of_their_own(derived: Derived, module_path: Path) -> None:
    packages = derived.lock.user_packages

    assert packages and packages.requirements == ("peft>=0.18", "protobuf<7 --constraint", "tensorboard")
    assert {"peft", "tensorboard", "grpcio"} <= {*packages.names} and "numpy" not in packages.names
    assert [layer["name"] for layer in derived.answer["layers"]][-2:] == ["your packages", "multinode"]
    bill = json.loads(call(["docker", "run", "--rm", "--entrypoint", "cat", derived.name,
                            "/opt/multinode/components.json"]).out)  # fmt: skip
    purls = {part.get("purl", "").partition("?")[0] for part in bill["components"]}
    assert {f"pkg:pypi/{name}@{derived.lock.version(name)}" for name in ("peft", "tensorboard")} <= purls
    stated = json.loads(build("provenance", str(module_path / "own")).out)["predicate"]["buildDefinition"]
    assert stated["externalParameters"]["user-packages"] == [*packages.requirements]


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("in docker", marks=pytest.mark.slow),  # which takes 20 s to hand over an image of this size
        "in a layout",
    ],
)
def test_it_is_built_again_from_the_lock_inside_it(derived: Derived, module_path: Path, where: str) -> None:
    verdict = build("verify", derived.name if where == "in docker" else str(module_path / "own"), "--json")

    assert verdict.code == 0 and json.loads(verdict.out)["digest"] == derived.answer["digest"]


def test_the_lock_is_asked_for_again_by_the_same_options_alone(derived: Derived, module_path: Path) -> None:
    lock = str(lockfile.path_for(module_path / "own"))

    again = built(*derived.options, "--no-load", "--lock", lock)
    other = build("--package", "peft==0.18.0", "--no-load", "--lock", lock)

    assert again["digest"] == derived.answer["digest"]
    assert other.code == 2 and "but the lock has" in other.err


@pytest.mark.slow
def test_what_others_ask_for_is_resolved_with_the_image(module_path: Path) -> None:
    place = module_path / "pylock.others.toml"
    (module_path / "others.txt").write_text("\n".join(OTHERS))

    options = ("--examples", "none", "--requirements", str(module_path / "others.txt"))
    done = build("lock", *options, "--output", str(place))

    assert done.code == 0, done.err
    lock = lockfile.read_lock(place.read_text(), "the lock", Request())
    assert lock.user_packages and {artifact.name for artifact in lock.artifacts} >= OTHERS
