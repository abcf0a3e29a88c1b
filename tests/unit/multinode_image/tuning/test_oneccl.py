"""What oneCCL's script changed."""

from __future__ import annotations

import pytest

from multinode_image.machine.image import Stack
from multinode_image.tuning.variables import changes, find_setvars, without_image

CCL = Stack("2.4.0+cpu", "4.46.0", "3.10", "ccl", None, "/site")


def test_the_script_of_oneccl_is_that_of_its_release() -> None:
    assert find_setvars(CCL) == "/site/oneccl_bindings_for_pytorch/env/setvars.sh"
    assert find_setvars(CCL._replace(torch="1.11.0+cpu")) == "/site/torch_ccl/env/setvars.sh"
    assert find_setvars(CCL._replace(backend="gloo")) is None


@pytest.mark.parametrize(
    ("before", "dump", "expected"),
    [
        ({"A": "1"}, "A=1\0B=two\nlines\0SHLVL=2\0", {"B": "two\nlines"}),
        ({"PATH": "/bin"}, "PATH=/ccl:/bin\0", {"PATH": "/ccl:/bin"}),
        ({"FI_PROVIDER_PATH": "/mine"}, "FI_PROVIDER_PATH=/ccl\0", {}),  # the user's
        ({"I_MPI_ROOT": ""}, "I_MPI_ROOT=/ccl\0", {"I_MPI_ROOT": "/ccl"}),
    ],
)
def test_only_what_the_script_changes_is_set(before: dict[str, str], dump: str, expected: dict[str, str]) -> None:
    assert changes(before, dump) == expected


def test_what_the_image_has_in_place_of_the_script_is_not_the_user_s() -> None:
    stack = CCL._replace(environment={"I_MPI_ROOT": "/usr/local/opt/mpi", "CCL_ATL_TRANSPORT": "ofi"})
    environ = {"I_MPI_ROOT": "/usr/local/opt/mpi", "CCL_ATL_TRANSPORT": "mpi", "A": "1"}
    assert without_image(environ, stack) == {"CCL_ATL_TRANSPORT": "mpi", "A": "1"}
