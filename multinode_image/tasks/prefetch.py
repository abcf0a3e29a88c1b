"""`prefetch TASK...`: bring what the arguments and the task's row name into the cache, for pods without a network."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.files import can_write, read_file
from multinode_image.machine.places import list_caches, list_lost, move_models
from multinode_image.printing.streams import print_note
from multinode_image.settings import overlay
from multinode_image.tasks.aliases import find_argument
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.command import PREFETCH, Command, suggest
from multinode_image.tasks.table import TASKS, Task, find_task, list_scripts, place_script

# Kinds: a model without its weights, one with them, a data set, a metric, data of nltk.
FILES, WEIGHTS, DATASET, METRIC, NLTK = "files", "weights", "dataset", "metric", "nltk"
USAGE = "prefetch qa --model_name_or_path MODEL --dataset_name DATASET"
# The flags of a script that name a model or a part of one.
MODELS = {
    "model_name_or_path": WEIGHTS,
    "config_name": FILES,
    "tokenizer_name": FILES,
    "image_processor_name": FILES,
    "feature_extractor_name": FILES,
}


class Wanted(NamedTuple):
    """Something that a script fetches: its kind and name, and what it is called with."""

    kind: str
    name: str
    config: str | None = None
    revision: str | None = None
    cache: str | None = None

    @property
    def text(self) -> str:
        """Return what it is, for a message."""
        kind = "model" if self.kind in (FILES, WEIGHTS) else self.kind
        return " ".join(filter(None, (kind, self.name, self.config)))


def prepare_prefetch(words: list[str], facts: Facts) -> tuple[Command, dict[str, str]]:
    """Return the command that fetches for a task, and its environment; raise Refusal if it cannot."""
    name, stack = words[0] if words else "", facts.stack
    if name not in TASKS and name not in list_scripts(stack.examples):
        raise Refusal("prefetch takes a task and its arguments", name or "nothing", suggest(name) if name else USAGE)
    environ = facts.environ_with_home
    caches = list_caches(overlay(environ, move_models(environ, stack.transformers)), stack.transformers)
    for note in warn_caches(caches, can_write, facts.mounts):
        print_note(note)
    task, script = find_task(name), place_script(name, stack)
    arguments = complete(task, script, words[1:], stack, many=False).arguments
    wanted = list_wanted(task, arguments, caches.get("models"), read_file(script) or "", os.path.exists)
    plan = {"task": name, "wanted": wanted, "whole": name in TASKS, "caches": [*caches.values()]}
    token = find_argument(arguments, "token")  # on a command line everybody could read it
    more = {"HF_TOKEN": token} if isinstance(token, str) and token else {}
    return Command(PREFETCH, "python3", [f"{facts.root}/prefetch.py", json.dumps(plan)]), {**facts.environ, **more}


def warn_caches(caches: Mapping[str, str], writable: Callable[[str], bool], mounts: Collection[str]) -> list[str]:
    """Return a note if what is fetched will be lost with the container; raise Refusal where it cannot be written.

    A task would go on with another cache, but what is fetched into that one is of no use to later tasks.
    """
    for path in caches.values():
        if not writable(path):
            remedy = "mount a volume that this user may write: docker run -v cache:/workspace/.cache/huggingface"
            raise Refusal("the cache cannot be written", path, remedy)
    lost = list_lost(caches.values(), mounts)
    return [f"nothing is mounted at {' and '.join(lost)}: what is fetched is lost with the container"] if lost else []


def list_wanted(
    task: Task, arguments: Mapping[str, object], models: str | None, source: str, exists: Callable[[str], bool]
) -> list[Wanted]:
    """List what a task fetches from the hub; a directory of the image or a volume is there already.

    arguments: by name; models: where transformers keeps models, for TRANSFORMERS_CACHE is none of huggingface_hub's;
    source: the text of its script.
    """
    texts = {name: str(value) for name, value in arguments.items() if value}
    cache, revision = find_argument(texts, "cache_dir"), find_argument(texts, "model_revision")
    models_by_flag = reversed([*MODELS.items()])
    named = {text: kind for flag, kind in models_by_flag if (text := find_argument(texts, flag)) is not None}
    wanted = [Wanted(DATASET, name, config, None, cache) for name, config in list_data(task, texts, source)]
    wanted += [Wanted(kind, name, None, revision, cache or models) for name, kind in reversed([*named.items()])]
    metrics = fill(task.metrics, texts)[:1]
    if find_argument(texts, "version_2_with_negative", "False") != "False":  # of the scripts for squad alone
        metrics = [f"{name}_v2" for name in metrics]
    for name, _, config in (metric.partition(" ") for metric in metrics):
        wanted.append(Wanted(METRIC, name, config or None, None, cache))
    wanted += [Wanted(NLTK, name) for name in task.nltk]
    return [entry for entry in wanted if entry.kind in (METRIC, NLTK) or not exists(entry.name)]


def list_data(task: Task, texts: Mapping[str, str], source: str) -> list[tuple[str, str | None]]:
    """List the data sets that a task loads, with their configurations: that of its arguments, or those of its script.

    Scripts of older releases name theirs without an owner, and in the cache that is another data set.
    """
    if name := find_argument(texts, "dataset_name"):
        return [(name, find_argument(texts, "dataset_config_name") or find_argument(texts, "dataset_config"))]
    if find_argument(texts, "train_file") or find_argument(texts, "validation_file"):
        return []
    rows = (row.partition(" ") for row in fill(task.data, texts))
    return [(name if f'"{name}"' in source else name.partition("/")[2], config or None) for name, _, config in rows]


def fill(rows: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """Return the rows of which all flags are given, with their values; each once."""
    flags = [(row, {name for _, name, _, _ in string.Formatter().parse(row) if name}) for row in rows]
    values = {name: find_argument(texts, name) for _, names in flags for name in names}
    return [*dict.fromkeys(row.format_map(values) for row, names in flags if all(values[name] for name in names))]
