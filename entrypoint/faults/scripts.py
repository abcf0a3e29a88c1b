"""Example scripts that fail with the installed packages whatever their arguments are: known by a text in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.machine.image import release

if TYPE_CHECKING:
    from collections.abc import Iterator


class Flaw(NamedTuple):
    """A text of a script, the package with which it fails since a release, and what to write in its place.

    beside: another text, without which the first does no harm.
    """

    text: str
    package: str
    since: tuple[int, int]
    instead: str
    beside: str = ""


# From the scripts at huggingface/transformers 70179949, which were run with the packages of an image, and again with
# what is in their place; the releases from the wheels of accelerate 0.34 and 1.0 (utils/dataclasses.py), and from the
# guide to huggingface_hub 1.0.
FLAWS = (
    Flaw("DistributedType.TPU", "accelerate", (1, 0), "DistributedType.XLA"),
    Flaw("import Repository, create_repo", "huggingface_hub", (1, 0), "import create_repo"),
    Flaw("original_embeddings.mean(", "torch", (0, 0),
         "original_embeddings = model.get_input_embeddings().weight.detach()",
         beside="original_embeddings = model.get_input_embeddings()\n"),
    Flaw("processing_classtokenizer=", "transformers", (0, 0), "processing_class="),
)  # fmt: skip

# Texts of scripts that fail as soon as several ranks evaluate, and what works in their place. They gather the labels of
# the ranks as lists: a tensor of each image of one rank is joined to that of another image of the next rank, while the
# predictions are those of all images (transformers/trainer.py, evaluation_loop; accelerate/utils/operations.py).
WITHOUT_EVALUATION = "which leaves evaluation out if no other flag asks for it"
FAIL_WITH_RANKS = {
    'torch.tensor([x["orig_size"] for x in batch])':
        f"`object-detection-no-trainer`, or --do_train, {WITHOUT_EVALUATION}",
    "for masks, labels in zip(batch_masks, batch_labels)":
        f"--do_train, {WITHOUT_EVALUATION}",
    "inputs = accelerator.gather_for_metrics(inputs)":
        f"`instance-segmentation --do_train`, {WITHOUT_EVALUATION}",
}  # fmt: skip


def find_flaws(source: str, find_version: Callable[[str], str | None]) -> Iterator[tuple[Flaw, str]]:
    """Yield each flaw of a script, with the package on which it fails and its release; find_version: returns that."""
    for flaw in FLAWS:
        version = find_version(flaw.package) or ""
        if flaw.text in source and flaw.beside in source and release(version) >= flaw.since:
            yield flaw, f"{flaw.package} {version}".rstrip()
