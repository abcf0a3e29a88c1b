"""Which rank failed first, of those that torchrun's agent names: a rank, its exit code, and a second."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from entrypoint.faults.ranks import find_first


@pytest.mark.parametrize(
    ("codes", "killed", "rank"),
    [
        pytest.param({0: (1, 8), 1: (1, 7)}, False, 1, id="the first"),
        pytest.param({0: (1, 8), 1: (1, 8)}, False, 0, id="in the same second, as the agent has seen them"),
        pytest.param({0: (1, 8), 1: (-9, 8), 2: (-11, 8)}, True, 1, id="who was killed for want of memory"),
        pytest.param({0: (1, 8), 1: (-9, 9)}, True, 1, id="and has no time of its own"),
        pytest.param({0: (1, 8), 1: (-9, 38)}, True, 0, id="killed by the agent after 30 s"),
        pytest.param({0: (1, 8), 1: (-9, 9)}, False, 0, id="killed by somebody, later"),
        pytest.param({0: (1, 8), 1: (-11, 8)}, False, 1, id="a signal"),
        pytest.param({0: (-15, 8), 1: (1, 8)}, False, 1, id="stopped by the agent"),
        pytest.param({0: (1, 8), 1: (-6, 8)}, False, 0, id="aborted since another was gone"),
        pytest.param({0: (-15, 8), 1: (-6, 8)}, False, 1, id="aborted"),
        pytest.param({2: (-15, 8)}, False, 2, id="the only one"),
    ],
)
def test_the_rank_that_failed_first_is_found(codes: dict[int, tuple[int, int]], killed: bool, rank: int) -> None:
    failures = {each: SimpleNamespace(exitcode=code, timestamp=when) for each, (code, when) in codes.items()}

    assert find_first(failures, killed=killed) == (rank, codes[rank][0])
