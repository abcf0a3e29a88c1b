# ruff: noqa: E501  # lines as uv prints them
"""What is said when uv resolved nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from images.context import Context
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import uv_errors
from images.lock.uv_errors import list_missing, list_required, list_yanked, parse_reasons
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from images.store.store import Store
from tests.support import locks
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


PLAN = planner.make_plan(Request(torch="2.10.0", transformers="5.0.0"), catalog.load())
SOURCES = Sources(index="https://me:secret@mirror/simple", extra=("https://other/simple",))


def nobody(_: object) -> tuple[str, None]:
    """Answer no question: nothing of the user's is in doubt."""
    raise AssertionError


@pytest.fixture
def context(store: Store) -> Context:
    return locks.context(store, SOURCES, {})


def fault(told: str, context: Context) -> Fault:
    return uv_errors.explain(told, PLAN, SOURCES, context, nobody)


def test_an_unreachable_index_is_named_without_its_password(context: Context) -> None:
    told = "error: Request failed\n  cause: Failed to fetch: `http://me:secret@host:9/simple/torch/`\n  cause: refused"

    failure = fault(told, context)

    assert isinstance(failure, WorldFault)
    assert failure.value == "http://host:9/simple/torch/ (refused)"
    assert "secret" not in str(failure)


PAGE = "https://mirror/simple/six/"
SENT = f"error: Failed to fetch: {PAGE}\n  cause: error sending request for url ({PAGE})"
CONNECT = f"{SENT}\n  cause: client error (Connect)\n"
HINT = "\nhint: Consider enabling use of system TLS certificates with the `--system-certs` command-line flag\n"


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (f"error: Failed to fetch: {PAGE}", PAGE),
        (SENT, f"{PAGE} (error sending request)"),
        (
            f"error: Failed to fetch: {PAGE}\n  cause: HTTP status client error (403 Forbidden) for url ({PAGE})",
            f"{PAGE} (HTTP status client error (403 Forbidden))",
        ),
        (
            f"{CONNECT}  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
            f"{PAGE} (Connection refused (os error 111))",
        ),
        (
            f"{CONNECT}  cause: invalid peer certificate: UnknownIssuer\n{HINT}",
            f"{PAGE} (invalid peer certificate: UnknownIssuer)",
        ),
    ],
)
def test_uvs_last_cause_says_why_an_index_is_not_reached(context: Context, told: str, value: str) -> None:
    failure = fault(told, context)

    assert (failure.fact, failure.exit_code, failure.value) == ("cannot reach a package index", 1, value)
    assert "REQUESTS_CA_BUNDLE" in failure.remedy and "--wheelhouse DIR" in failure.remedy


@pytest.mark.parametrize(
    "said",
    ["warning: a\nended by signal 9", "exit code 3", "error: failed to write `/store/uv`: No space left (os error 28)"],
)
def test_any_other_failure_is_uvs_and_no_requirements(context: Context, said: str) -> None:
    failure = fault(said, context)

    assert (failure.fact, failure.exit_code) == ("uv failed", 1)
    assert failure.value == " ".join(line.strip() for line in said.splitlines())


def test_wheels_for_another_python_are_the_reason_whether_the_plan_or_uv_names_them(
    tmp_path: Path, store: Store
) -> None:
    pins = (("torch", PLAN.torch), ("transformers", PLAN.transformers), ("six", "1.17.0"))
    wheels = [tmp_path / f"{name}-{version}-cp310-cp310-linux_x86_64.whl" for name, version in pins]
    for wheel in wheels:
        wheel.touch()

    with pytest.raises(UserFault, match="only for another Python") as caught:
        asked = locks.context(store, SOURCES, {}, str(tmp_path))
        uv_errors.explain("No solution found: you require six==1.17.0", PLAN, SOURCES, asked, nobody)

    assert all(wheel.name in caught.value.value for wheel in wheels)


FILTERED = (
    "error: No solution found when resolving dependencies\n"
    "hint: `{}` was filtered by `exclude-newer` to only include packages uploaded before 2026-07-09T00:00:00Z."
)

NO_DAY = "warning: `{file}` is missing an upload date, but user provided: 2026-07-09T00:00:00Z\n"


def test_an_index_without_days_is_told_from_one_with_newer_releases_only(context: Context) -> None:
    names = ("intel-cmplr-lib-ur", "umf", "a", "tcmlib")
    undated = "".join(NO_DAY.format(file=f"{name.replace('-', '_')}-2026.0.0-py2.py3-none-any.whl") for name in names)

    failure = fault(undated + "".join(map(FILTERED.format, names)), context)
    newer = fault(undated + FILTERED.format("six"), context)

    assert "does not say when" in failure.fact
    assert failure.value == "a, intel-cmplr-lib-ur, tcmlib, umf (asked: https://mirror/simple, https://other/simple)"
    assert "--lock" in failure.remedy and "--wheelhouse" in failure.remedy
    assert newer.fact == "no set of packages fits"


NONE = "error: No solution found when resolving dependencies\n  cause: "
END = ", we can conclude that your requirements are unsatisfiable.\n\nhint: Wheels are required for `other`"
ALONE = {"flair": "0.15.1", "torch": "2.13.0+cu130", "transformers": "4.57.6"}
LANGDETECT = "Because langdetect==1.0.9 has no usable wheels and flair==0.15.1 depends on langdetect>=1.0.9"
OLD = "Because flair<=0.4.1 has no usable wheels and flair>=0.15 depends on transformers<5"
BOTH = "this-image depends on a==1 and b==1"
YANKED = "Because b==1.1 was yanked (reason: a mistake) and all versions of a depend on b==1.1"
NEW = "Because flair==0.15.1 depends on transformers<5 and this-image depends on transformers==5.23.0"
OTHERS = "other versions of your own (--requirements, --package)"
OR_OF_IMAGE = f"{OTHERS}, or of the image (--torch, --transformers)"
WITHOUT = "build one: pip wheel --no-deps --wheel-dir wheels {}, then --wheelhouse wheels"


@pytest.mark.parametrize(
    ("lines", "answers", "fact", "value", "remedy"),
    [
        # What a package wants without the image is said of the image, and not of releases that nobody would take.
        (("flair",), {"flair": ALONE, "IMAGE flair newest": NEW}, "do not go with the image",
         f"flair: {NEW}", f"--torch 2.10.0 --transformers 4.57.6, or {OTHERS}"),
        (("flair", "six<1 --constraint"), {"flair": ALONE, "IMAGE flair newest": NEW}, "do not go with the image",
         f"flair: {NEW}", f"--torch 2.10.0 --transformers 4.57.6, or {OTHERS}"),
        (("flair",), {"flair": {**ALONE, "transformers": "3.0.0"}, "IMAGE flair newest": NEW},
         "do not go with the image", f"flair: {NEW}", OR_OF_IMAGE),
        (("flair",), {"flair": ALONE, "IMAGE flair newest": "Because flair==0.15.1 depends on numpy<2"},
         "do not go with the image", "flair: Because flair==0.15.1 depends on numpy<2", OR_OF_IMAGE),
        # What lacks a wheel is named, and not old releases that lack one, too.
        (("flair",), {"flair": OLD, "flair newest": LANGDETECT}, "has no wheel", f"flair: {LANGDETECT}",
         WITHOUT.format("langdetect==1.0.9")),
        (("flair", "six"), {"flair six": f"{OLD} and this-image depends on flair and six",
                            "flair newest": LANGDETECT},
         "has no wheel", f"flair: {LANGDETECT}", WITHOUT.format("langdetect==1.0.9")),
        (("a==1",), {"a==1": "Because a==1 has no usable wheels and this depends on a==1"}, "has no wheel",
         "a==1: Because a==1 has no usable wheels and this depends on a==1", WITHOUT.format("a==1")),
        (("a",), {"a": "Because b>=4.9,<=4.9.3 has no usable wheels and a depends on b"}, "has no wheel",
         "a: Because b>=4.9,<=4.9.3 has no usable wheels and a depends on b", WITHOUT.format("'b>=4.9,<=4.9.3'")),
        (("a",), {"a": "Because all versions of a have no usable wheels"}, "has no wheel",
         "a: Because all versions of a have no usable wheels", WITHOUT.format("a")),
        (("a==1", "b==1"), {"a==1 b==1": f"Because c==2 has no usable wheels and c<=1 depends on b>=2 and {BOTH}"},
         "do not go together", f"a==1, b==1: Because c==2 has no usable wheels and c<=1 depends on b>=2 and {BOTH}",
         OTHERS),
        (("a==1", "a<1"), {"a<1 a==1": "Because this-image depends on a<1 and a==1"}, "do not go together",
         "a<1, a==1: Because this-image depends on a<1 and a==1", OTHERS),
        # What is at fault in two lines is what one of them lacks by itself.
        (("a==1", "b==1"), {"a==1 b==1": f"Because c==2 has no usable wheels and c<=1 depends on b>=2 and {BOTH}",
                            "b==1": "Because d==4 has no usable wheels and b==1 depends on d==4"},
         "has no wheel", "b==1: Because d==4 has no usable wheels and b==1 depends on d==4", WITHOUT.format("d==4")),
        (("a==1", "b==1"), {"a==1 b==1": f"Because b==1 depends on a>=2 and {BOTH}",
                            "a==1": "Because a==1 depends on nosuch"},
         "requires what cannot be had", "a==1: Because a==1 depends on nosuch", OTHERS),
        # What would help is named if uv can do with it.
        (("a==1", "b==1"), {"a==1 b==1": f"Because a==1 depends on b>=2 and {BOTH}", "IMAGE a==1 b": {"b": "2.1"}},
         "do not go together", f"a==1, b==1: Because a==1 depends on b>=2 and {BOTH}",
         f"b==2.1 in place of b==1, or {OTHERS}"),
        (("a==1", "a<1", "b"), {"a<1 a==1 b": "Because this-image depends on a<1 and a==1", "IMAGE b a": {"a": "1"}},
         "do not go together", "a<1, a==1: Because this-image depends on a<1 and a==1",
         f"a==1 in place of a<1 and a==1, or {OTHERS}"),
        (("a==1",), {"a==1": YANKED, "IMAGE a==1 b==1.1": {"a": "1", "b": "1.1"}}, "requires what cannot be had",
         f"a==1: {YANKED}", f"--package b==1.1 as well, which takes a release that was withdrawn, or {OTHERS}"),
        (("a==1",), {"a==1": YANKED, "IMAGE a==1 b==1.1": "Because b==1.1 depends on transformers<5"},
         "requires what cannot be had", f"a==1: {YANKED}", OTHERS),
        (("a==1",), {"a==1": {"a": "1", "torch": "2.13.0"}, "IMAGE a==1": "Because this-image depends on a==1",
                     "IMAGE a": {"a": "2"}},
         "do not go with the image", "a==1: Because this-image depends on a==1",
         f"a==2 in place of a==1, or {OR_OF_IMAGE}"),
    ],
)  # fmt: skip
def test_users_packages_are_asked_for_alone_to_tell_what_is_in_their_way(
    context: Context, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], answers: Mapping[str, Any],
    fact: str, value: str, remedy: str,
) -> None:  # fmt: skip
    """`answers` are by what is asked for: by itself, beside the image, or with the newest release of it."""
    plan = replace(PLAN, user_packages=tuple(sorted(lines)))
    monkeypatch.setattr(uv_errors, "find_newest", lambda *_: {"flair": Version("0.15.1")})

    def ask(requirements: Sequence[str]) -> tuple[str, Mapping[str, str] | None]:
        beside = [one for one in requirements if one not in PLAN.requirements]
        is_beside = {*PLAN.requirements} <= {*requirements}
        kind = " ".join([*(["IMAGE"] if is_beside else []), *dict.fromkeys(beside)])
        kind = kind.replace(" flair==0.15.1", " newest" if is_beside or "flair newest" in answers else "")
        answer = answers.get(kind)
        return (f"{NONE}{answer}{END}", None) if isinstance(answer, str) else ("", answer)

    failure = uv_errors.explain(f"{NONE}{OLD}{END}", plan, SOURCES, context, ask)

    assert isinstance(failure, UserFault) and fact in failure.fact
    assert (failure.value, failure.remedy) == (f"asked: {value}", remedy)
