"""Variables of an image that the user names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from images.host.errors import UserFault
from images.layers.entrypoint_layer import ENVIRONMENT
from images.plan import user_files


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        (["KERAS_BACKEND=torch"], ("KERAS_BACKEND=torch",)),
        (["b=2 = 3", "A=", "b=2 = 3"], ("A=", "b=2 = 3")),
        (["TOKENIZERS_PARALLELISM=false", "KEYS=1"], ("KEYS=1", "TOKENIZERS_PARALLELISM=false")),
    ],
)
def test_each_variable_is_there_once_and_in_one_order(typed: Sequence[str], lines: Sequence[str]) -> None:
    assert user_files.read_variables(typed) == lines
    assert [f"{name}={value}" for name, value in user_files.parse_variables(lines).items()] == [*lines]


@pytest.mark.parametrize(
    ("typed", "fact", "value"),
    [
        (["KERAS_BACKEND"], "not a variable", "KERAS_BACKEND"),
        (["=1"], "not a variable", "=1"),
        (["2A=1"], "not a variable", "2A=1"),
        (["A=1", "A=2"], "two values", "A: 1 and 2"),
        (["HF_TOKEN=x"], "a secret", "HF_TOKEN"),
        (["wandb_api_key=x"], "a secret", "wandb_api_key"),
        (["MyPassword=1234"], "a secret", "MyPassword"),
        (["INDEX=https://me:hunter@h/simple"], "a secret", "INDEX"),
        (["HUB=hf_" + "a" * 34], "a secret", "HUB"),
        *([[f"{name}=x"], "sets that variable itself", name] for name in ("PYTHONPATH", *ENVIRONMENT)),
    ],
)
def test_what_cannot_be_a_variable_of_an_image_is_refused(typed: Sequence[str], fact: str, value: str) -> None:
    with pytest.raises(UserFault, match=fact) as caught:
        user_files.read_variables(typed)

    assert caught.value.value == value and "hf_" not in str(caught.value) and "hunter" not in str(caught.value)
