"""The packages that the script of a task imports: which the image lacks, and how to install them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from entrypoint.errors import Refusal
from entrypoint.machine.image import BESIDE_TORCH, TORCH_INDEX, normalize, release
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from entrypoint.machine.image import Stack
    from entrypoint.tasks.task import Task

# What a script imports, by directory of the examples: its requirements.txt, without torch and what every image has, and
# pillow, which one of them forgets. The directories that --tasks of the builder knows are in images/versions.toml too.
NEEDS = {
    "audio-classification": ("datasets", "evaluate", "librosa"),
    "contrastive-image-text": ("datasets", "torchvision"),
    "image-classification": ("datasets", "evaluate", "scikit-learn", "torchvision"),
    "image-pretraining": ("datasets", "torchvision"),
    "instance-segmentation": ("albumentations", "datasets", "pycocotools", "timm", "torchmetrics"),
    "language-modeling": ("datasets", "evaluate", "scikit-learn"),
    "multiple-choice": ("datasets", "evaluate"),
    "object-detection": ("albumentations", "datasets", "pycocotools", "timm", "torchmetrics"),
    "question-answering": ("datasets", "evaluate"),
    "semantic-segmentation": ("albumentations", "datasets", "evaluate", "pillow"),
    "speech-pretraining": ("datasets", "librosa"),
    "speech-recognition": ("datasets", "evaluate", "jiwer", "librosa"),
    "summarization": ("datasets", "evaluate", "nltk", "rouge-score"),
    "text-classification": ("datasets", "evaluate", "scikit-learn"),
    "text-generation": (),
    "token-classification": ("datasets", "evaluate", "seqeval"),
    "translation": ("datasets", "evaluate", "sacrebleu"),
}
# The directories whose packages the builder can put in; a test holds this against images/versions.toml.
BUILT = (
    "language-modeling", "multiple-choice", "question-answering", "summarization", "text-classification",
    "text-generation", "token-classification", "translation",
)  # fmt: skip
# The directories whose data are sound, and what datasets decodes it with since a release (datasets/features/audio.py).
SOUND = ("audio-classification", "speech-pretraining", "speech-recognition")
CODEC, SINCE_CODEC = "torchcodec", (4, 0)
# An older datasets, which loads scripts, and sound without the codec. With pandas 3 it finds no file_name in the
# metadata.csv of a directory of sounds or images. With it come older releases of other packages.
OLDER_DATASETS = ("'datasets<4'", "'pandas<3'")
OLDER = frozenset({"datasets", "dill", "fsspec", "multiprocess", "pandas"})
# Any other user than root installs into a home of its own, where no other user of the image finds a package.
FROM_THIS = "as USER root in an image FROM this one"

LIST = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"

# Names of installed packages.
Ask = Callable[[], "Iterable[str]"]


def check_task_packages(name: str, stack: Stack, datasets: str | None, quick: Ask, sure: Ask) -> None:
    """Raise Refusal for a task whose packages are not in the image, before minutes of loading.

    datasets: its release; quick: the packages of the image; sure: all that Python would find, asked only if one is not
    among the first.
    """
    task = TASKS[name]
    lacking = list_lacking(task, datasets, quick) and list_lacking(task, datasets, sure)
    if lacking:
        remedy = install(lacking, stack.torch)
        if task.directory in BUILT:
            remedy = f"build it with all tasks for text: {stack.again}"
        raise Refusal(f"this image has no requirements for {name}, it lacks", ", ".join(lacking), remedy)


def list_lacking(task: Task, datasets: str | None, ask: Ask) -> list[str]:
    """List the packages that a task imports and the image does not have; datasets: its release."""
    there = {normalize(name) for name in ask()}
    needed = NEEDS[task.directory]
    if task.directory in SOUND and "datasets" in there and release(datasets or "") >= SINCE_CODEC:
        needed = (*needed, CODEC)
    return [name for name in needed if name not in there]


def install(lacking: list[str], torch: str) -> str:
    """Return how to install packages; an older `datasets` does without the one for sound, which needs ffmpeg."""
    index = f"--extra-index-url {TORCH_INDEX} " if {*BESIDE_TORCH, "timm", CODEC} & {*lacking} else ""
    remedy = f"pip install {index}{' '.join(lacking)} {FROM_THIS}"
    if CODEC not in lacking:
        return remedy
    older = " ".join([*OLDER_DATASETS, *(name for name in lacking if name != CODEC)])
    added = f"with ffmpeg and the {CODEC} for torch {'.'.join(map(str, release(torch)))}"
    return f"PIP_CONSTRAINT= pip install {older} {FROM_THIS}; or {remedy}, {added}"


def ask_python(environ: Mapping[str, str]) -> list[str]:
    """List the packages that the scripts' Python finds; the entrypoint itself runs without any."""
    import subprocess  # only a package that is not in the image's own directory pays for it

    argv = ["python3", "-c", LIST]
    done = subprocess.run(argv, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace").split()
