"""Names and quantities as Kubernetes reads them."""

from __future__ import annotations

from contextlib import nullcontext as does_not_raise
from fractions import Fraction

import pytest

from entrypoint.errors import Refusal
from manifests import fields


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("2.", 2),
        ("1500m", Fraction(3, 2)),
        ("3u", Fraction(3, 10**6)),
        ("3n", Fraction(3, 10**9)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1Ki", 1024),
        ("1.5Gi", 3 << 29),
        ("2Ei", 2 << 60),
        ("1e3", 1000),
        ("1E-1", Fraction(1, 10)),
        ("2E", 2 * 10**18),
        ("0", None),
        ("0Gi", None),
        ("-1", None),
        ("+1", None),
        ("1K", None),
        ("1ki", None),
        ("1 Gi", None),
        ("1e", None),
        ("1e100", None),
        (".", None),
        ("", None),
        ("\u0661", None),
        ("1" * 25, None),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_takes_it_for(text: str, value: Fraction | int | None) -> None:
    assert fields.read_quantity(text) == value


@pytest.mark.parametrize(
    "image",
    ["a", "a:1", "a/b_c/d-e:1.2-x", "localhost:5000/a", "Registry.Example/a:T", "[::1]:5000/a", f"a@sha256:{'0' * 64}"],
)
def test_an_image_in_a_registry_is_taken(image: str) -> None:
    assert fields.read_image(image, "--image") == image


@pytest.mark.parametrize(
    ("text", "path"), [("/data", "/data"), ("/data/", "/data"), ("//a//b", "/a/b"), ("/tmp/x", "/tmp/x")]
)
def test_a_directory_is_taken_without_needless_slashes(text: str, path: str) -> None:
    assert fields.read_path(text, "--mount") == path


@pytest.mark.parametrize(
    ("text", "toleration"),
    [
        ("a=b:NoSchedule", {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}),
        ("a=:NoSchedule", {"key": "a", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
        ("a=", {"key": "a", "operator": "Equal", "value": ""}),
        ("a:NoExecute", {"key": "a", "operator": "Exists", "effect": "NoExecute"}),
        ("a", {"key": "a", "operator": "Exists"}),
    ],
)
def test_a_taint_becomes_its_toleration(text: str, toleration: dict[str, str]) -> None:
    assert fields.read_toleration(text, "--toleration") == toleration


@pytest.mark.parametrize("key", ["a", "a.b_c-d", "example.org/a", "node.kubernetes.io/instance-type"])
def test_the_key_of_a_label_may_have_a_domain(key: str) -> None:
    assert fields.is_key(key)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a/b/c", "-a", "Example.org/a", f"{'a' * 254}/b", "a" * 64])
def test_what_kubernetes_takes_for_no_key_is_none(key: str) -> None:
    assert not fields.is_key(key)


@pytest.mark.parametrize("text", ["Q", "1", "-", "", "a" * 64, "a_b", "\u00e9"])
def test_what_is_suggested_is_a_name(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        fields.read_name(text, "--name", longest=9)

    assert fields.read_name(refused.value.remedy.split()[1], "--name")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("$(A)/hf", "/a/hf"),
        ("$(A)$(A)", "/a/a"),
        ("$(B)", "$(B)"),
        ("$(LATER)", "$(LATER)"),
        ("$$(A)", "$(A)"),
        ("a$$b", "a$b"),
        ("$A $(A", "$A $(A"),
        ("$", "$"),
    ],
)
def test_a_variable_as_a_container_has_it(text: str, seen: str) -> None:
    assert fields.expand({"A": "/a", "B": text, "LATER": "c"})["B"] == seen


@pytest.mark.parametrize(("name", "good"), [(".", False), ("..", False), ("..a", False), (".a", True), ("a..", True)])
def test_a_name_is_no_step_to_another_directory(name: str, good: bool) -> None:
    expected = does_not_raise() if good else pytest.raises(Refusal)

    with expected:
        assert fields.read_variable(f"{name}=1", "--env") == (name, "1")
    with expected:
        assert fields.read_secret(f"hf:{name}", "--token-secret") == ("hf", name)


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_a_token_is_in_no_manifest(name: str) -> None:
    with pytest.raises(Refusal, match="a token in a manifest") as refused:
        fields.read_variable(f"{name}=hf_secret", "--env")
    assert "hf_secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["/a/../etc", "/a/./b", "/data/..", "/..", "/.", "a", "/", "", "/a:b", "/a\0b", "/a\udcff"]
)
def test_what_is_no_directory_for_a_volume_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="--mount takes an absolute directory"):
        fields.read_path(text, "--mount")
