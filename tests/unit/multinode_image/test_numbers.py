"""Lists of processors and numbers in foreign text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.numbers import is_true, read_cpus, read_range, whole, write_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8,10-11\n", {0, 1, 2, 3, 8, 10, 11}),
        ("0", {0}),
        ("", set()),
        ("3-1", set()),
        ("a,1-x,2", {2}),
        ("0-99999999999", set()),
        ("4-6,0-5,2", {0, 1, 2, 3, 4, 5, 6}),
    ],
)
def test_a_list_of_cpus_is_read_as_far_as_it_makes_sense(text: str, cpus: set[int]) -> None:
    assert read_cpus(text) == cpus


@given(st.frozensets(st.integers(0, 500)))
def test_written_cpus_are_read_back(cpus: frozenset[int]) -> None:
    assert read_cpus(write_cpus(cpus)) == cpus


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(cpu >= 0 for cpu in read_cpus(text))
    assert whole(text) is None or int(text.strip()) >= 0
    low, high = read_range(text) or (1, None)
    assert 1 <= low <= (high or low)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2", (2, 2)),
        (" 2 ", (2, 2)),
        ("2:2", (2, 2)),
        ("2:4", (2, 4)),
        ("2:", (2, None)),
        ("2: ", (2, None)),
        *((text, None) for text in ("", " ", ":", ":4", "4:2", "0", "0:4", "0:", "-1", "1.5", "1:2:3", "1-4", "2x")),
        *((text, None) for text in ("²", "٢", "1:²", "1:\uff14", "$(N)", "2:$(N)")),
    ],
)
def test_a_range_of_sizes_is_read(text: str, found: tuple[int, int | None] | None) -> None:
    assert read_range(text) == found


YES: tuple[object, ...] = (True, 1, 0.5, ["x"], "True", "yes", "Y", "t", "1", "/data/no")
NO: tuple[object, ...] = (None, 0, [], "", "False", "no", "N", "f", "0", "OFF")


@pytest.mark.parametrize(("value", "true"), [(value, value in YES) for value in (*YES, *NO)])
def test_an_argument_is_true_in_the_words_of_a_parser_and_as_a_value_of_json(value: object, true: bool) -> None:
    assert is_true(value) is true


def test_thousands_of_ranges_take_no_longer_than_one() -> None:
    assert len(read_cpus(",".join(f"{low}-1048575" for low in range(9000)))) == 1 << 20
