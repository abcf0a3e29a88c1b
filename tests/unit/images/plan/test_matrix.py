"""What `plan` and `list` print; docs/versions.md holds the matrix."""

from __future__ import annotations

import json
import re
from io import StringIO

from rich.console import Console

from images.plan import catalog, matrix, planner
from images.plan.plan import Request

TABLE = catalog.load()


def test_a_list_as_json_has_every_release() -> None:
    listed = json.loads(json.dumps(matrix.list_fields(TABLE)))

    assert {row["version"] for row in listed["torch"]} == set(map(str, TABLE.torch))
    assert sum(len(era["releases"]) + len(era["yanked"]) for era in listed["transformers"]) == len(TABLE.transformers)
    assert listed["torch"][0] == {
        "version": "1.10.0", "released": "2021-10-21", "python": ["3.6", "3.7", "3.8", "3.9"], "backend": "ccl",
        "source": "torch-ccl README at tag v1.10.0; IPEX installation page", "bindings": "1.10.0", "ipex": "1.10.100",
        "notes": ["IPEX is archived with known security issues, and this release of it is withdrawn from PyPI for"
                  " security"],
        "intel": ["impi-rt==2021.4.0", "intel-openmp==2021.4.0"], "base": "an image of your own", "transformers": "-",
        "tested": False,
    }  # fmt: skip
    assert listed["transformers"][0] == {
        "era": "4.30", "python": ">=3.7", "torch": ">=1.9,!=1.12.0", "accelerate": ">=0.20.2,<1", "ccl": True,
        "flags": ["--no_cuda, not yet --use_cpu", "--xpu_backend beside --ddp_backend"], "yanked": {},
        "source": "package metadata of 4.30.2: extras torch and accelerate", "releases": ["4.30.0", "4.30.1", "4.30.2"],
    }  # fmt: skip


def test_plan_and_list_are_read_by_people() -> None:
    out = StringIO()
    console = Console(file=out, width=400)

    matrix.show_plan(planner.make_plan(Request(torch="2.4.0", transformers="4.46.0"), TABLE), console)
    matrix.show_list(TABLE, console)

    assert "oneccl_bind_pt==2.4.0" in out.getvalue()
    rows = {tuple(re.split(r"  +", line.strip())) for line in out.getvalue().splitlines()}
    assert rows >= {
        ("torch", "Python", "backend", "oneCCL bindings", "IPEX", "transformers", "base"),
        ("1.10.0 to 1.10.2", "3.6 to 3.9", "ccl", "1.10.0", "1.10.100", "-", "an image of your own"),
        ("2.3.0", "3.8 to 3.12", "ccl", "2.3.0", "2.3.0", "4.30.0 to 5.0.0", "intel or debian"),
        ("transformers", "Python", "torch", "accelerate", "ccl", "yanked", "flags"),
        ("5.1 to 5.14", ">=3.10", ">=2.4", ">=1.1,<2", "no", "5.10.0",
         "--ddp_backend ccl gone; --group_by_length gone in 5.2, use --train_sampling_strategy group_by_length"),
        ("4.57", ">=3.9", ">=2.2", ">=0.26,<2", "yes", "4.57.0", "--use_ipex gone; --no_cuda warns"),
        ("4.52", ">=3.9", ">=2.1,<2.7", ">=0.26,<2", "yes", "4.52.0", "-"),
    }  # fmt: skip


def test_a_narrow_terminal_leaves_nothing_out() -> None:
    out, place = StringIO(), "[a]1" * 30
    console = Console(file=out, width=60, force_terminal=True)

    matrix.show_plan(planner.make_plan(Request(examples=place), TABLE), console)
    assert place in "".join(out.getvalue().split())

    matrix.show_list(TABLE.model_copy(update={"lacks": place}), console)
    assert "".join(out.getvalue().split()).endswith(place) and out.getvalue().isascii()


def test_a_range_of_transformers_stands_once() -> None:
    ranges = [era["era"] for era in matrix.eras(TABLE)]

    assert sorted({*ranges}) == sorted(ranges)
