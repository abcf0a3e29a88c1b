"""What goes together: every conflict is a fact with its source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from images.model import Request
from images.plan import catalog, compatibility
from images.plan.compatibility import BaseChoice

TABLE = catalog.load()
DEBIAN = BaseChoice("the debian base (bookworm)", TABLE.debian, None)
ANY = Request()


def conflicts(torch: str, transformers: str, limits: Request = ANY, choice: BaseChoice = DEBIAN) -> list[str]:
    rows = TABLE.torch[Version(torch)], TABLE.transformers[Version(transformers)]
    return compatibility.conflicts(*rows, choice, limits)


@pytest.mark.parametrize(
    ("torch", "limits", "names"),
    [
        ("2.4.0", ANY, [("Intel's image", "intel/intel-optimized-pytorch:2.4.0-pip-multinode"), (DEBIAN.name, None)]),
        ("2.13.0", ANY, [(DEBIAN.name, None)]),
        ("2.4.0", Request(base="debian"), [(DEBIAN.name, None)]),
        ("2.13.0", Request(base="intel"), [("Intel's image", None)]),  # refused by conflicts()
        ("2.4.0", Request(base="mine:1", python="3.12"), [("mine:1", "mine:1")]),
    ],
)
def test_all_bases_that_could_be_used_are_listed(
    torch: str, limits: Request, names: list[tuple[str, str | None]]
) -> None:
    found = compatibility.bases(TABLE.torch[Version(torch)], limits, TABLE)

    assert [(each.name, each.reference) for each in found] == names


def test_an_image_that_the_user_names_has_the_python_that_the_user_says() -> None:
    [found] = compatibility.bases(TABLE.torch[Version("2.4.0")], Request(base="mine:1", python="3.12"), TABLE)

    assert (found.base.python, found.base.glibc) == ("3.12", TABLE.reference_glibc)


@pytest.mark.parametrize(
    ("torch", "transformers", "python", "asked", "backend", "against"),
    [
        ("2.4.0", "4.46.3", "3.10", None, "ccl", []),
        ("2.4.0", "4.46.3", "3.10", "gloo", "gloo", []),
        ("2.4.0", "5.1.0", "3.10", None, "gloo", ["transformers 5.1.0 no longer supports ccl"]),
        ("2.4.0", "5.1.0", "3.10", "ccl", "ccl", ["transformers 5.1.0 no longer supports ccl"]),
        (
            "2.4.0", "4.46.3", "3.14", None, "gloo",
            ["oneccl_bind_pt 2.4.0 and IPEX 2.4.0 are made for Python 3.8 to 3.11, not 3.14"],
        ),
        (
            "2.8.0", "5.1.0", "3.11", None, "gloo",
            ["torch 2.8.0 has no oneCCL bindings for the CPU", "transformers 5.1.0 no longer supports ccl"],
        ),
    ],
)  # fmt: skip
def test_ccl_is_taken_where_everything_allows_it(
    torch: str, transformers: str, python: str, asked: str | None, backend: str, against: list[str]
) -> None:
    rows = TABLE.torch[Version(torch)], TABLE.transformers[Version(transformers)]

    found, reasons = compatibility.backend(*rows, python, Request(backend=asked))

    assert found == backend
    assert [reason.partition(" (")[0] for reason in reasons] == against
    assert all(reason.endswith(")") for reason in reasons)  # its source


GLIBC = replace(DEBIAN, base=TABLE.debian.model_copy(update={"glibc": "2.27"}))


@pytest.mark.parametrize(
    ("torch", "transformers", "limits", "choice", "facts"),
    [
        ("2.13.0", "5.23.0", ANY, DEBIAN, []),
        ("2.13.0", "5.23.0", Request(python="3.11", base="debian", backend="gloo"), DEBIAN, []),
        ("2.13.0", "5.23.0", ANY, GLIBC, ["require glibc 2.28, the debian base (bookworm) has 2.27"]),
        ("2.7.0", "4.52.4", ANY, DEBIAN, ["transformers 4.52.4 requires torch >=2.1,<2.7, not 2.7.0"]),
        ("2.13.0", "5.23.0", Request(python="3.12"), DEBIAN, ["Python 3.12 was asked for, the debian base"]),
        ("2.13.0", "5.23.0", Request(base="intel"), DEBIAN, ["Intel has no image for several nodes with"]),
        ("2.13.0", "5.23.0", Request(backend="ccl"), DEBIAN, ["has no oneCCL bindings", "no longer supports ccl"]),
        (
            "1.10.0", "4.30.0", ANY, DEBIAN,
            ["torch 1.10.0 has wheels for Python 3.6 to 3.9, the debian base (bookworm) has 3.11; it takes an"],
        ),
        (
            "1.10.0", "4.30.0", ANY, replace(DEBIAN, base=TABLE.debian.model_copy(update={"python": "3.8"})),
            ["the entrypoint requires Python 3.9 or newer, the debian base (bookworm) has 3.8"],
        ),
        (
            "2.6.0", "5.23.0", ANY, replace(DEBIAN, base=TABLE.debian.model_copy(update={"python": "3.9"})),
            ["transformers 5.23.0 requires Python >=3.11, the debian base (bookworm) has 3.9"],
        ),
    ],
)  # fmt: skip
def test_every_conflict_is_returned(
    torch: str, transformers: str, limits: Request, choice: BaseChoice, facts: list[str]
) -> None:
    found = conflicts(torch, transformers, limits, choice)

    assert len(found) == len(facts)
    assert all(fact in line for fact, line in zip(facts, found, strict=True))
