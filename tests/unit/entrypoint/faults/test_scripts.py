"""Texts of example scripts that are known to fail."""

from __future__ import annotations

import pytest

from entrypoint.faults.scripts import FLAWS, Flaw, find_flaws

TPU = "if accelerator.distributed_type == DistributedType.TPU:"
EMBEDDINGS = "original_embeddings = model.get_input_embeddings()\nmean = original_embeddings.mean(dim=0)"


@pytest.mark.parametrize(
    ("source", "version", "packages"),
    [
        (TPU, "1.15.0", ["accelerate"]),
        (TPU, "0.34.2", []),
        (TPU, None, []),
        ("from huggingface_hub import Repository, create_repo", "1.33.0", ["huggingface_hub"]),
        ("from huggingface_hub import Repository, create_repo", "0.36.0", []),
        ("processing_classtokenizer=tokenizer", None, ["transformers"]),
        (EMBEDDINGS, None, ["torch"]),
        (EMBEDDINGS.replace("()", "().weight.detach()"), None, []),
        (EMBEDDINGS.replace(".mean", ".weight.mean"), None, []),
        (f"{TPU}\n{EMBEDDINGS}", "1.0.0", ["accelerate", "torch"]),
    ],
)
def test_a_script_has_flaws_with_some_releases(source: str, version: str | None, packages: list[str]) -> None:
    found = list(find_flaws(source, lambda _: version))
    assert [flaw.package for flaw, _ in found] == packages
    assert all(said == f"{flaw.package} {version or ''}".strip() for flaw, said in found)


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.text)
def test_a_corrected_script_passes(flaw: Flaw) -> None:
    assert list(find_flaws(flaw.instead + "\n", lambda _: "99.0")) == []
