# ruff: noqa: E501  # lines as uv prints them
"""What is read of uv's reasons: facts, told from conclusions and from words of strangers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.lock.uv_errors import list_missing, list_required, list_yanked, parse_reasons
from tests.support.growth import assert_linear, repeat

# As uv 0.13 prints them, by what is missing, withdrawn, and which lines the conclusion is about.
REASONS = {
    "another release is in the way, too": (
        """error: No solution found when resolving dependencies
  cause: Because lib==1.1 has no usable wheels and lib<=1.0 depends on helper>=2, we can conclude that all versions of lib depend on helper>=2.
         And because all versions of app depend on lib, we can conclude that all versions of app depend on helper>=2.
         And because this-image depends on app==1.0 and helper==1.0, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `lib` because building from source is disabled for all packages (i.e., with `--no-build`)
""", [], [], ["app", "helper"]),
    "none of a range has a wheel": (
        """  cause: Because b>=2.0 has no usable wheels and all versions of a depend on b>=2, we can conclude that all versions of a cannot be used.
         And because this-image depends on a[x]==1.0, we can conclude that your requirements are unsatisfiable.
""", ["b>=2.0"], [], ["a"]),
    "old releases have none, and what a new one requires has none": (
        """  cause: Because a==0.4 has no usable wheels and only the following versions of a are available:
             a==0.4
             a>=1.0
         we can conclude that a<1.0 cannot be used. (1)

         Because b==1.0 has no usable wheels and only b<=1.0 is available, we can conclude that b>=1.0 cannot be used.
         And because a>=1.0 depends on b>=1, we can conclude that a>=1.0 cannot be used.
         And because we know from (1) that a<1.0 cannot be used, we can conclude that all versions of a cannot be used.
         And because this-image depends on a, we can conclude that your requirements are unsatisfiable.
""", ["b==1.0"], [], ["a"]),
    "wheels for another Python": (
        """  cause: Because b==1.0 has no wheels with a matching Python ABI tag (e.g., `cp311`) and only b==1.0 is available, we can conclude that all versions of b cannot be used.
         And because all versions of a depend on b and this-image depends on a, we can conclude that your requirements are unsatisfiable.
""", ["b==1.0"], [], ["a"]),
    "withdrawn, and all that is available": (
        """  cause: Because b==1.1 was yanked (reason: a mistake) and only the following versions of b are available:
             b<=1.0
             b==1.1
         we can conclude that b>1.0 cannot be used.
         And because all versions of a depend on b>1.0 and this-image depends on a==1.0, we can conclude that your requirements are unsatisfiable.
""", [], ["b==1.1"], ["a"]),
    "withdrawn, in the words of a stranger": (
        """  cause: Because b==1.1 was yanked (reason: c==9 has no usable wheels, d==1 was yanked (see x), and this-image depends on e) and all versions of a depend on b==1.1, we can conclude that all versions of a cannot be used.
         And because this-image depends on a==1.0, we can conclude that your requirements are unsatisfiable.
""", [], ["b==1.1"], ["a"]),
    "of the image, too": (
        """  cause: Because all versions of a depend on c>=2 and this-image depends on a, we can conclude that this-image depends on c>=2.
         And because this-image depends on c==1.0 and transformers==5.23.0, we can conclude that your requirements are unsatisfiable.
""", [], [], ["a", "c", "transformers"]),
    "no wheels are no word of a name": (
        "Because has==1 depends on no and no depends on usable and wheels==2 depends on have, we can conclude that x.",
        [], [], []),
}  # fmt: skip


@pytest.mark.parametrize(("said", "missing", "yanked", "required"), REASONS.values(), ids=REASONS)
def test_facts_are_told_from_conclusions(said: str, missing: list[str], yanked: list[str], required: list[str]) -> None:
    assert (list_missing(said), list_yanked(said), list_required(said)) == (missing, yanked, required)


WORDS = st.sampled_from([
    "Because", "And because", "a==1", "all versions of b", "depends on", "has no usable wheels", "and", "was yanked",
    "(reason:", "x)", "), ", "we can conclude that", ".", "(1)", "this-image", ",", "\n", "only", "hint:",
]) | st.text(max_size=4)  # fmt: skip


@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_any_text_has_facts_or_none(said: str) -> None:
    facts = parse_reasons(said)

    assert all(
        fact.subject and not any(letter.isspace() for letter in "".join([fact.subject, *fact.on])) for fact in facts
    )


@pytest.mark.parametrize(
    "piece", ["a", "x ", "was yanked (reason: ", "Because a depends on b and ", "we can conclude that ", "a has no wheels and ", ". And because"]
)  # fmt: skip
def test_reasons_of_any_length_are_read_in_time(piece: str) -> None:
    assert_linear(parse_reasons, repeat(piece))
