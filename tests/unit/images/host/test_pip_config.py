"""pip's configuration, as `pip config list` prints it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from images.host.pip_config import Sources, parse


def test_a_later_level_wins_key_by_key() -> None:
    listing = (
        ":env:.find-links='/env'\n"
        "global.cert='/etc/ca.pem'\n"
        "global.extra-index-url='file:///a file:///b\\nhttps://c'\n"
        "global.find-links='/global'\n"
        "global.timeout='60'\n"
        "install.index-url='https://mirror/simple'\n"
    )

    assert parse(listing) == Sources(
        index="https://mirror/simple",
        extra=("file:///a", "file:///b", "https://c"),
        links=("/env",),
        certificate="/etc/ca.pem",
    )


def test_the_same_is_said_to_uv() -> None:
    options = Sources(index="https://i", extra=("https://e",), links=("/w",)).uv_options()

    assert options == [
        "--index-strategy", "unsafe-best-match", "--index-url", "https://i", "--extra-index-url", "https://e",
        "--find-links", "/w",
    ]  # fmt: skip


@given(st.text())
def test_any_text_is_read(listing: str) -> None:
    assert isinstance(parse(listing), Sources)
