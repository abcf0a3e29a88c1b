"""Documents, numbers and addresses that others wrote, and how a fault and our variables are named."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import Refusal, list_causes, one_row
from multinode_image.reading import (
    DEEPEST,
    is_loopback,
    is_true,
    parse_json,
    parse_logged,
    read_cpus,
    read_ipv6,
    read_port,
    read_range,
    whole,
    write_cpus,
)
from multinode_image.settings import Setting, forget, prepare
from tests.support.harness import ROOT
from tests.support.hostile import nested, values

# Texts of no JSON that we read, whoever wrote them: each with a neighbour that is read.
REFUSED = {
    "": "0", "{": "{}", "1e309": "1e308", "-1e999": "-1e-999", str(2**64): str(2**64 - 1),
    str(-(2**63) - 1): str(-(2**63)), "9" * 5000: "9" * 19, "[" + "1," * 9 + "1]": "[" + "1," * 8 + "1]",
    "[[],[],[],[],[]]": "[[],[],[],[]]", json.dumps(nested(DEEPEST + 1)): json.dumps(nested(DEEPEST)),
    "[" * 100_000: "[[]]",
}  # fmt: skip


@pytest.mark.parametrize(("text", "neighbour"), REFUSED.items())
def test_what_cannot_be_reckoned_with_is_refused(text: str, neighbour: str) -> None:
    most = 9 if len(text) < 30 and text.startswith("[") else 1000
    for parse in (parse_json, parse_logged):
        for written, read in ((text, neighbour), (text.encode(), neighbour.encode())):
            with pytest.raises(ValueError):
                parse(written, most)
            assert parse(read, most) == json.loads(neighbour)


@pytest.mark.parametrize("data", [b"\xff", b"\xef\xbb\xbf1", "{}".encode("utf-16")])
def test_no_other_encoding_is_read(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_loss_that_is_no_number_is_read_where_it_was_logged_and_nowhere_else(word: str) -> None:
    with pytest.raises(ValueError):
        parse_json(f'{{"loss": {word}}}')
    assert not math.isfinite(parse_logged(f'{{"loss": {word}}}')["loss"])


@given(values)
def test_what_is_read_is_what_was_written(value: object) -> None:
    text = json.dumps(value)
    try:
        parsed = parse_json(text)
    except ValueError:
        return
    assert json.loads(text) == parsed


def test_nobody_else_in_the_entrypoint_reads_json() -> None:
    """Programs and hooks, which run in the Python of a training, read what this job has written itself."""
    paths = [path for path in (ROOT / "multinode_image").rglob("*.py") if not {"hooks", "programs"} & {*path.parts}]
    readers = {path.name for path in paths if "json.load" in path.read_text()}

    assert readers == {"reading.py"}


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
    ("text", "sizes"),
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
def test_a_range_of_sizes_is_read(text: str, sizes: tuple[int, int | None] | None) -> None:
    assert read_range(text) == sizes


YES: tuple[object, ...] = (True, 1, 0.5, ["x"], "True", "yes", "Y", "t", "1", "/data/no")
NO: tuple[object, ...] = (None, 0, [], "", "False", "no", "N", "f", "0", "OFF")


@pytest.mark.parametrize(("value", "true"), [(value, value in YES) for value in (*YES, *NO)])
def test_an_argument_is_true_in_the_words_of_a_parser_and_as_a_value_of_json(value: object, true: bool) -> None:
    assert is_true(value) is true


def test_thousands_of_ranges_take_no_longer_than_one() -> None:
    assert len(read_cpus(",".join(f"{low}-1048575" for low in range(9000)))) == 1 << 20


HERE = (
    "localhost", "LocalHost", "localhost6", "ip6-loopback", "ip6-localhost", "localhost.localdomain",
    "localhost6.localdomain6", "127.0.1.1", "::1", "0:0:0:0:0:0:0:1", "::1%lo",
)  # fmt: skip
MAPPED = ("::ffff:127.0.0.1", "::FFFF:7f00:1")
ELSEWHERE = ("", "node0", "node0:29500", "localhost.example.com", "10.0.0.127", "fd77::1", "::", "::ffff:10.0.0.1")
NO_ADDRESS = ("::1:\0", "\udcff:", "::1:80:x", "10.0.0.1", "node0:80", "")


def test_loopback_is_this_machine_by_whatever_name() -> None:
    assert [host for host in (*HERE, *MAPPED, *ELSEWHERE, *NO_ADDRESS) if is_loopback(host)] == [*HERE, *MAPPED]


@pytest.mark.parametrize(("text", "family"), [("::2", 2), ("fe80::1%eth0", (0xFE80 << 112) + 1)])
def test_an_address_of_ipv6_is_read(text: str, family: int) -> None:
    assert read_ipv6(text) == family.to_bytes(16, "big")
    assert not any(map(read_ipv6, NO_ADDRESS))


@pytest.mark.parametrize(("text", "port"), [("", None), ("1", 1), ("65535", 65535), ("0", Refusal), ("65536", Refusal)])
def test_a_port_is_one_from_1_to_65535(text: str, port: int | type[Refusal] | None) -> None:
    if port is Refusal:
        with pytest.raises(Refusal):
            read_port(text)
    else:
        assert read_port(text) == port


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a\tb ä", "a\tb ä"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("1\rmultinode", "1\\rmultinode"),
        ("\x85x", "\\x85x"),
        ("\u2028", "\\u2028"),
        ("\udcff", "\\udcff"),
        ("", ""),
    ],
)
def test_no_value_forges_a_row_of_the_log(text: str, row: str) -> None:
    assert one_row(text) == row
    refusal = Refusal("a fact", f"x{text}", f"export A={text}")
    assert (len(str(refusal).splitlines()), len(refusal.note.splitlines())) == (2, 1)


def test_causes_are_those_of_a_traceback() -> None:
    first, second, last = ValueError("a"), KeyError("b"), OSError("c")
    last.__context__, second.__context__ = second, first
    assert list_causes(last) == [last, second, first]
    second.__cause__ = last
    assert list_causes(last) == [last, second]
    second.__cause__, last.__suppress_context__ = None, True
    assert list_causes(last) == [last]


WANTED = [Setting("OMP_NUM_THREADS", "2", "cores"), Setting("LD_PRELOAD", "/lib/a.so:/lib/b.so", "libraries")]


def test_what_an_outer_entrypoint_set_is_forgotten_unless_changed() -> None:
    outer = prepare({"HOME": "/h"}, [], WANTED).environ
    assert forget(outer) == {"HOME": "/h"}
    assert forget({**outer, "OMP_NUM_THREADS": "1"}) == {"HOME": "/h", "OMP_NUM_THREADS": "1"}


def test_what_was_set_over_something_comes_back() -> None:
    moved = [Setting("HF_HOME", "/tmp/h", "cannot be written")]
    outer = prepare({"HF_HOME": "/workspace", "LD_PRELOAD": ""}, moved, []).environ
    assert outer["HF_HOME"] == "/tmp/h"
    assert forget(outer) == {"HF_HOME": "/workspace", "LD_PRELOAD": ""}
    assert forget({**outer, "HF_HOME": "/mine"})["HF_HOME"] == "/mine"


def test_a_value_with_a_semicolon_takes_nothing_of_the_users_away() -> None:
    """It must not be taken for the next pair of the list."""
    outer = prepare({"MINE": "1", "OURS": "100%;b"}, [Setting("OURS", "a;MINE=1", "")], []).environ
    assert outer["OURS"] == "a;MINE=1"
    assert forget(outer) == {"MINE": "1", "OURS": "100%;b"}


def test_what_a_process_does_not_get_comes_back() -> None:
    outer = prepare({"A": "1", "HOME": "/h"}, [], [], ("A", "B")).environ
    assert "A" not in outer and forget(outer) == {"A": "1", "HOME": "/h"}
