"""Libraries, usual and broken -> the same without what only a debugger reads, or as they were."""

from __future__ import annotations

import io
import json
import struct

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from images.wheels import symbols
from images.wheels.symbols import Outline
from tests.support.elf import debuggable, library
from tests.support.hostile import changed, changes

LOADED, DEBUG = b"loaded" * 1001, b"debug" * 40_000
USUAL = debuggable(LOADED, DEBUG)
PIECE = 100_003  # bytes: no boundary of a section


def strip(data: bytes) -> bytes | None:
    """Return a file without its symbols, or None where it stays as it is."""
    kept = symbols.outline(io.BytesIO(data), len(data))
    if kept is None:
        return None
    assert Outline.of_json(json.loads(json.dumps(kept.to_json()))) == kept
    found = b"".join(symbols.without((data[at : at + PIECE] for at in range(0, len(data), PIECE)), kept))
    assert len(found) == kept.size
    return found


@pytest.mark.parametrize("length", [0, 1, 7, 8, 3 << 20])
def test_all_that_is_loaded_stays_and_debug_information_goes(length: int) -> None:
    loaded = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    data = debuggable(loaded, DEBUG)

    found = strip(data)

    assert found
    end = 64 + 56 + length
    assert (found[:40], found[48:end]) == (data[:40], data[48:end])
    assert b"debug" * 2 not in found
    assert len(data) - len(found) > len(DEBUG) - 100


def test_sections_keep_their_numbers_names_and_places() -> None:
    found = ELFFile(io.BytesIO(strip(USUAL) or b""))

    assert [section["sh_type"] for section in found.iter_sections()] == [
        "SHT_NULL", "SHT_PROGBITS", "SHT_NULL", "SHT_STRTAB",
    ]  # fmt: skip
    assert found.get_section(1).name == ".text"
    assert found.get_section(1).data() == LOADED
    assert found.get_section(3).name == ".shstrtab"


def patched(form: str, offset: int, value: int) -> bytes:
    out = bytearray(USUAL)
    struct.pack_into(form, out, offset, value)
    return bytes(out)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"#!/bin/sh\n", id="a script"),
        pytest.param(USUAL[:70], id="cut in its segments"),
        pytest.param(USUAL[:-1], id="cut in its sections"),
        pytest.param(library("libx.so"), id="no segments"),
        pytest.param(debuggable(LOADED, b"d" * 1000), id="little to win"),
        pytest.param(strip(USUAL), id="done before"),
        pytest.param(patched("<B", 4, 1), id="32 bits"),
        pytest.param(patched("<B", 5, 2), id="big-endian"),
        pytest.param(patched("<H", 16, 1), id="an object file"),
        pytest.param(patched("<H", 56, 0), id="zero segments"),
        pytest.param(patched("<Q", 64 + 32, len(USUAL)), id="loaded to its end"),
        pytest.param(patched("<Q", 64 + 32, 120), id="a section that is loaded by no segment"),
        pytest.param(patched("<H", 62, 9), id="names in no section"),
    ],
)
def test_what_is_not_usual_stays_as_it_is(data: bytes) -> None:
    assert strip(data) is None


def test_a_file_that_is_shorter_than_its_archive_says_stays_as_it_is() -> None:
    assert symbols.outline(io.BytesIO(USUAL[:-64]), len(USUAL)) is None


@given(changes, st.sampled_from([0, 0, 0, 1, 64, 300]))
def test_no_damaged_library_breaks_the_removal_of_symbols(at: list[tuple[int, int]], cut: int) -> None:
    near_the_ends = [(place % 120 if place % 2 else -(place % 300) - 1, value) for place, value in at]

    strip(changed(USUAL, near_the_ends)[: len(USUAL) - cut])
