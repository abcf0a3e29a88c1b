"""What pages of a package index say of its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from images.lock import index_pages
from images.servers.pip_config import Sources
from tests.support import locks


def test_a_file_is_found_by_its_sha256_in_any_letters(tmp_path: Path) -> None:
    wanted = dataclasses.replace(locks.artifact("six", "1.0"), sha256="ab" * 32)
    (tmp_path / "six").mkdir()
    (tmp_path / "six" / "index.html").write_text(f'<a href="six-1.0.zip#sha256={wanted.sha256.upper()}">six</a>')

    page = index_pages.read_page(str(tmp_path), "six", Sources())

    assert page and (page.address(wanted) or "").endswith("/six/six-1.0.zip")


def test_a_file_that_was_withdrawn_is_told(tmp_path: Path) -> None:
    (tmp_path / "six").mkdir()
    links = '<a href="six-1.0.zip" data-yanked="">six</a><a href="six-1.1.zip">six</a>'
    (tmp_path / "six" / "index.html").write_text(links)

    page = index_pages.read_page(str(tmp_path), "six", Sources())

    assert page and [(file.name, file.yanked, file.uploaded) for file in page.files] == [
        ("six-1.0.zip", True, None), ("six-1.1.zip", False, None)
    ]  # fmt: skip
