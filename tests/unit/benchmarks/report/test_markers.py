"""Parts of pages that programs write."""

from __future__ import annotations

import pytest

from benchmarks.report.markers import fill

PAGE = "before\n<!-- one -->\nold\n<!-- end -->\nbetween\n<!-- two -->\nolder\n<!-- end -->\nafter\n"


def test_one_part_is_written_anew_and_the_rest_stays() -> None:
    assert fill(PAGE, "two", ["a", "b"], "page.md") == PAGE.replace("older", "a\nb")
    assert fill(fill(PAGE, "one", ["a"], "page.md"), "one", ["old"], "page.md") == PAGE


@pytest.mark.parametrize("text", ["", "<!-- one -->\n", "<!-- onetwo -->\n<!-- end -->"])
def test_a_page_without_the_markers_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"this page has no markers for a part: page\.md: one\n  try: <!-- one -->"):
        fill(text, "one", ["new"], "page.md")
