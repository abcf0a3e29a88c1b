"""Options of torchrun and accelerate before a script."""

from __future__ import annotations

import pytest

from entrypoint.tuning import options
from entrypoint.tuning.options import read_program_options

FLAGS = ("--standalone", "-m")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", {}),
        ("x.py --nnodes 2", {}),
        ("--nnodes 2 x.py --nnodes 3", {"--nnodes": "2"}),
        ("--nnodes=2 --nproc_per_node=4 x.py", {"--nnodes": "2", "--nproc_per_node": "4"}),
        ("--nnodes 2 --nnodes 3 x.py", {"--nnodes": "3"}),
        ("--standalone --nnodes 2 x.py", {"--standalone": "1", "--nnodes": "2"}),
        ("-m pkg.train --nnodes 2", {"-m": "1"}),
        ("-r3 x.py", {"-r3": "1"}),
        ("-r 3 x.py", {"-r": "3"}),
        ("--log-dir= x.py", {"--log_dir": ""}),
        ("--nnodes", {"--nnodes": "1"}),
        ("--nnodes 2 -- --nproc 4", {"--nnodes": "2"}),
        ("--rdzv-conf a=1,b=2 x.py", {"--rdzv_conf": "a=1,b=2"}),
        ("--rdzv_conf=a_b=1 x.py", {"--rdzv_conf": "a_b=1"}),
    ],
)
def test_options_end_where_the_script_begins(line: str, found: dict[str, str]) -> None:
    assert read_program_options(line.split(), FLAGS) == found


def test_what_was_typed_stays_as_it_was() -> None:
    words = ["--nnodes", "2", "x.py"]
    read_program_options(words, FLAGS)
    assert words == ["--nnodes", "2", "x.py"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--nnode 2 --nproc-per=4 x.py", {"--nnodes": "2", "--nproc_per_node": "4"}),
        ("--nn 2 --nproc_per_ 4 x.py", {"--nnodes": "2", "--nproc_per_node": "4"}),
        ("--standalon --nproc-per-node 2 x.py", {"--standalone": "1", "--nproc_per_node": "2"}),
        ("--mod pkg.train --nnodes 2", {"--module": "1"}),
        ("--rdzv-e m:7 --max 3 x.py", {"--rdzv_endpoint": "m:7", "--max_restarts": "3"}),
        ("--he x.py", {"--help": "1"}),
        # Several options begin so, or none does: torchrun refuses it.
        ("--master 2 --nnodes 2 x.py", {"--master": "2", "--nnodes": "2"}),
        ("--nodes 2 x.py", {"--nodes": "2"}),
        # Letters are no beginnings.
        ("-n 2 x.py", {"-n": "2"}),
        ("-m --nnode 2", {"-m": "1", "--nnodes": "2"}),
    ],
)
def test_a_beginning_of_one_option_is_that_option(line: str, found: dict[str, str]) -> None:
    assert read_program_options(line.split(), options.FLAGS, options.VALUED) == found


def test_a_beginning_stays_as_it_is_where_not_all_options_are_known() -> None:
    assert read_program_options(["--standalon", "2", "x.py"], FLAGS) == {"--standalon": "2"}
