"""The parts of pages that are made of our own sources, and the pages as they should stand in the repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.report import pages as figures
from images.host.errors import UserFault
from scripts.pages import memory, picture, reference, tables
from scripts.pages.marks import PART

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python -m scripts.pages"
PARTS: Mapping[str, Callable[[], list[str]]] = {
    "commands of build.py": reference.commands,
    "options of build.py": reference.build_options,
    "options of manifest.py": reference.manifest_options,
    "commands of the image": reference.image_commands,
    "tasks": reference.tasks,
    "variables of users": reference.typed_variables,
    "variables of ours": reference.own_variables,
    "variables of ranks": reference.rank_variables,
    "exit codes": reference.exit_codes,
    "order of launchers": reference.found_by,
    "limits of downloads": reference.download_limits,
    "limits of contents": reference.content_limits,
    "files that are left out": reference.left_out,
    "modules without bytecode": reference.uncompiled,
    "files of secrets": reference.secret_files,
    "waits": reference.waits,
    "names of secrets": reference.secret_names,
    "forms of secrets": reference.secret_forms,
    "other messages": reference.other_messages,
    "modules": reference.modules,
    "hooks": reference.hooks,
    "faults": tables.faults,
    "launchers": tables.launchers,
    "matrix": tables.versions,
    "images": tables.images,
    "ends": tables.ends,
    "memory of ranks": memory.table,
    **{f"figures of {name}": figures.maker(name) for name in figures.PARTS},
}


def write() -> list[str]:
    """Write what is made and stands otherwise in the repository; return the paths of these files below its root."""
    changed = {path: text for path, text in make().items() if not path.exists() or path.read_text() != text}
    for path, text in changed.items():
        path.write_text(text)
    return [path.relative_to(ROOT).as_posix() for path in changed]


def make() -> dict[Path, str]:
    """Return each page, and each picture that is made, as it should stand in the repository."""
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
    return {
        **{path: fill(path.read_text()) for path in pages},
        picture.PLACE: picture.draw_trainings(),
        figures.PICTURE: figures.draw_speed(),
    }


def fill(text: str) -> str:
    """Return a page with its parts made anew; raise UserFault for a part that nobody makes."""
    return PART.sub(_make, text)


def _make(part: re.Match[str]) -> str:
    if part["name"] not in PARTS:
        raise UserFault("no part of the pages has this name", part["name"], f"one of: {', '.join(PARTS)}")
    lines = "\n".join(PARTS[part["name"]]()).rstrip("\n")
    return f"{part['begin']}{lines}\n{part['end']}"
