"""Any text as the value of any option: a manifest or a message, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.manifests import KINDS, list_options, write

# Texts near what options take, beside texts of any kind.
NEAR = st.text("aA1.-_:/=@xmGi0 \n\0é\udcff", max_size=12)
VALUES = st.one_of(
    NEAR, st.text(max_size=12), st.integers().map(str), st.sampled_from(["auto", "off", "2x4", "1:4"])
).filter(lambda text: text != "--")  # which argparse took for nothing until 2024: python/cpython#109475


# Each option in the last kind that has it.
OPTIONS = {option: kind for kind in KINDS for option in list_options(kind)}


@pytest.mark.parametrize(("option", "kind"), OPTIONS.items())
@settings(max_examples=settings().max_examples // 2)  # many options are read alike
@given(text=VALUES)
def test_a_value_is_taken_or_refused(option: str, kind: str, text: str) -> None:
    printed = write(kind, f"{option}={text}")

    if printed.code == 0:
        assert printed.objects[-1]["kind"]
    else:
        first, second = printed.err.splitlines()
        assert (printed.code, printed.out) == (2, "")
        assert first.startswith("error: ") and second.startswith("  try: ")


@given(words=st.lists(VALUES.filter(lambda text: text not in ("-h", "--help")), max_size=4))
def test_a_task_is_taken_or_refused(words: list[str]) -> None:
    printed = write("pytorchjob", *words)

    assert printed.code in (0, 2)
    assert printed.code == 2 or printed.manifest["kind"] == "PyTorchJob"
