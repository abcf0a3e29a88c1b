"""Make the pages of the repository a site, each at its own path; mkdocs calls this file (`hooks` in mkdocs.yml).

A page links to pages, and to sources that it explains. Both have the same paths in the site as in the repository, so
that one link is right on a code host and here; a source is a file of the site as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)")
# The page that who searches for the words of an error is looking for.
REMEDIES = "docs/troubleshooting.md"
SEARCH = "scripts/pages/search.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draw pictures while the site is made: a reader's browser would ask a server of others for the program."""
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [{"name": "mermaid", "class": "", "format": draw}]}
    return config


def draw(source: str, *_: Any, **__: Any) -> str:
    return f"<figure>{mermaidx.render(source).svg()}</figure>"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages of the root beside those of docs/, and what they link to."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    wanted = {ROOT / SEARCH, *pages, *(target for page in pages for target in linked(page))}
    of_the_theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*of_the_theme, *(of_the_repository(path, config) for path in sorted(wanted))])


def on_page_markdown(markdown: str, page: Page, **_: Any) -> None:
    """Put remedies first among what a search finds."""
    if page.file.src_uri == REMEDIES:
        page.meta["search"] = {"boost": 1.5}


def linked(page: Path) -> Iterator[Path]:
    """Yield the files that a page links to; mkdocs itself names a link that leads nowhere."""
    for link in LINK.findall(page.read_text()):
        target = ROOT / normpath(page.parent.relative_to(ROOT) / PurePosixPath(link))
        if target.is_file():
            yield target


def of_the_repository(path: Path, config: MkDocsConfig) -> File:
    return File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
