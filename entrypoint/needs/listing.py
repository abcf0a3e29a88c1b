"""The table of all tasks, which `tasks` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.machine.image import find_version, release
from entrypoint.needs.packages import list_lacking
from entrypoint.needs.script import say_script
from entrypoint.printing.streams import quote
from entrypoint.tasks.arguments import list_defaults
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from entrypoint.machine.image import Stack
    from entrypoint.needs.packages import Ask


def list_tasks(stack: Stack, sites: Sequence[str], ask: Ask) -> str:
    """Return a table of all tasks, with script, defaults and whether they can run here; sites: as in list_sites."""
    there, datasets = list(ask()), find_version(sites, "datasets")
    width = max(map(len, TASKS)) + 1
    lines = [f"{'smoke':{width}} a short training to see that all ranks work together, offline"]
    for name, task in TASKS.items():
        flags = list_defaults(name, task, stack, many=False)
        defaults = " ".join(quote(word) for flag in flags for word in flag.words())
        lacking = list_lacking(task, datasets, lambda: there)
        late = release(stack.transformers) < task.since
        why = f"needs transformers {'.'.join(map(str, task.since))}" if late else f"lacks {', '.join(lacking)}"
        why = why if late or lacking else say_script(task, stack, sites)
        about = f"{task.about} ({why})" if why else task.about
        lines.append(f"{name:{width}} {about}\n    {task.script} {defaults}")
    lines.append(f"examples: {stack.examples or 'none in this image: build it with --examples'}")
    return "\n".join(lines)
