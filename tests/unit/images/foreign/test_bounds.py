"""How much a compressed file may unpack to."""

from __future__ import annotations

import pytest

from images.foreign.bounds import Bound


@pytest.mark.parametrize(("size", "most"), [(0, 1000), (99, 1000), (100, 1000), (101, 1010)])
def test_a_small_file_may_unpack_to_the_least_and_a_large_one_to_so_many_times_its_size(size: int, most: int) -> None:
    assert Bound(10, 1000).of(size) == most
