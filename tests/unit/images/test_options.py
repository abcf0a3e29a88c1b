"""The options of each command: what they take and refuse, and the request that they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import content
from images.host.errors import UserFault
from images.options import parse_words, parser, read_names, read_request, read_requests
from images.plan.plan import Request
from images.platforms import AMD64, ARM64, Platform


def test_build_takes_what_is_taken_without_a_command() -> None:
    words = ["--torch", "2.4.0", "--push", "h:1/a", "--push", "h:1/b", "--no-load", "--jobs", "3", "--offline"]

    assert vars(parse_words("build", words)) == vars(parse_words(None, words))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("linux/arm64", [ARM64]),
        ("linux/amd64,linux/arm64", [AMD64, ARM64]),
        ("arm64,x86_64", [AMD64, ARM64]),  # the digest of an index does not depend on what is typed
    ],
)
def test_a_build_is_asked_for_once_for_each_platform(typed: str, expected: list[Platform]) -> None:
    asked = read_requests(parse_words("build", ["--platform", typed, "--torch", "2.10.0"]))

    index = tuple(expected) if len(expected) > 1 else ()
    assert asked == [Request(platform=platform, platforms=index, torch="2.10.0") for platform in expected]


@pytest.mark.parametrize(
    ("typed", "release", "is_said"),
    [("2.5.1", "2.5.1", False), ("2.5.1+cpu", "2.5.1", False), ("2.5.1+cu121", "2.5.1", True), ("two", "two", False)],
)
def test_of_torch_a_release_is_taken_whichever_build_is_typed(typed: str, release: str, is_said: bool) -> None:
    request = read_request(parse_words("build", ["--torch", typed]))

    assert (request.torch, bool(request.notes)) == (release, is_said)


def test_every_name_is_whole() -> None:
    assert read_names(parse_words("build", ["--tag", "x", "--tag", "host:5000/y:1"])) == ["x:latest", "host:5000/y:1"]


@pytest.mark.parametrize("name", [one.name for one in content.FIELDS])
@pytest.mark.parametrize("text", ["", "a\nb", "TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345678"])
def test_each_text_that_goes_into_an_image_is_read_first(name: str, text: str) -> None:
    """Also that of an option to come."""
    with pytest.raises(UserFault):
        read_request(parse_words("build", [f"--{content.option_key(name)}={text}"]))


@pytest.mark.parametrize("base", ["A B", "oci:", "x:y:z"])
def test_a_base_that_cannot_be_one_is_refused(base: str) -> None:
    with pytest.raises(UserFault):
        read_request(parse_words("plan", ["--base", base, "--python", "3.11"]))


@pytest.mark.parametrize(("words", "value"), [(["A B C"], "'A B C'"), (["x:1", "--tag", "x:y:z"], "'x:y:z'")])
def test_a_name_that_is_none_is_refused(words: list[str], value: str) -> None:
    with pytest.raises(UserFault, match=value) as caught:
        read_names(parse_words("build", ["--tag", *words]))

    assert caught.value.remedy == "--tag NAME:TAG"


REFUSED = [
    ("bundle", [], "--output"),
    ("plan", ["--lock", "x"], "--lock"),
    ("sbom", ["x", "--jobs", "2"], "--jobs"),
    ("build", ["--backend", "nccl"], "'nccl'"),
    ("build", ["--compression", "xz"], "'xz'"),
    ("build", ["--torch", " "], "' ' is empty; leave the option out for its default"),
    ("plan", ["--examples", "a\nb"], r"'a\nb' has characters that cannot be printed"),
    ("build", ["--tasks", "a,"], "'' is empty; leave the option out for its default"),
    ("build", ["--jobs", "\u0662"], "is not a whole number above 0"),
    ("build", ["--jobs", "1_0"], "is not a whole number above 0"),
    ("build", ["--jobs", "1" * 5000], "is not a whole number above 0"),
    ("build", ["--platform", "linux/riscv64"], "'linux/riscv64' is none of linux/amd64, linux/arm64"),
    ("build", ["--platform", "linux/amd64,"], "'' is none of"),
    ("build", ["--platform", "linux/amd64,amd64"], "has linux/amd64 twice"),
    ("plan", ["--platform", "linux/amd64,linux/arm64"], "is more than one platform"),
    ("verify", ["x", "--platform", "linux/amd64,linux/arm64"], "is more than one platform"),
    ("build", ["--torch=--"], "argument --torch: '--' is no value"),
    ("build", ["--torch", "2\udcff"], "that is not UTF-8"),
]


@pytest.mark.parametrize(("command", "words", "said"), REFUSED)
def test_what_a_command_does_not_take_is_refused(command: str | None, words: list[str], said: str) -> None:
    with pytest.raises(UserFault) as caught:
        parse_words(command, words)

    assert said in f"{caught.value.fact}: {caught.value.value}"
    assert caught.value.remedy in (
        parser(command).prog + " --help",
        "a name in UTF-8, such as that of a link (ln -s); or LC_ALL=C.UTF-8, if it is one",
    )


TAKING = st.sampled_from(["--torch", "--tasks", "--output", "--lock", "--offline", "--tag", "--as-of"])


@given(option=TAKING, text=st.text("aA1-.,:=/ \n\u0661\udcff", max_size=6) | st.text(max_size=6))
def test_any_value_is_as_it_was_typed_or_refused(option: str, text: str) -> None:
    try:
        options = parse_words("build", [f"{option}={text}"])
    except UserFault as fault:
        assert fault.value and fault.remedy
    else:
        value = getattr(options, option[2:].replace("-", "_"))
        assert value in (text, [text], tuple(text.split(",")))
