"""The parts of pages that are made when the site is: a line `<!-- made: NAME -->` stands where one goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from benchmarks.report import pages as figures
from scripts.pages import memory, picture, reference, tables

MARK = re.compile(r"(?m)^<!-- made: (.+) -->$")
PARTS: Mapping[str, Callable[[], list[str]]] = {
    "commands of build.py": reference.commands,
    "options of build.py": reference.build_options,
    "options of manifest.py": reference.manifest_options,
    "commands of the image": reference.image_commands,
    "tasks": reference.tasks,
    "variables of users": reference.typed_variables,
    "variables of ranks": reference.rank_variables,
    "exit codes": reference.exit_codes,
    "order of launchers": reference.found_by,
    "limits of downloads": reference.download_limits,
    "other messages": reference.other_messages,
    "modules": reference.modules,
    "faults": tables.faults,
    "launchers": tables.launchers,
    "matrix": tables.versions,
    "images": tables.images,
    "ends": tables.ends,
    "curves of smoke": picture.curves,
    "memory of ranks": memory.table,
    **{f"figures of {name}": figures.maker(name) for name in figures.ON_THE_PAGE},
}


def fill_in(text: str) -> str:
    """Return a page with its parts in the place of their marks; raise KeyError for a part that nobody makes."""
    return MARK.sub(lambda mark: "\n".join(PARTS[mark[1]]()), text)
