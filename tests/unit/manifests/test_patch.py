"""Fields of the user's in a manifest, and files of this machine in its pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import options
from manifests.patch import merge
from tests.support.manifests import JOBS, list_containers, list_pods, write

POD = {"containers": [{"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}]}], "volumes": [{"name": "v"}]}
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
    ({"a": 1}, {"a": None, "b": None}, {}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
    ({"a": 5}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    (
        POD,
        {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "b"}], "volumes": []},
        {
            "containers": [
                {"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                {"name": "b"},
            ],
            "volumes": [],
        },
    ),
    (
        {"mounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
        {"mounts": [{"name": "v", "mountPath": "/b", "readOnly": True}]},
        {"mounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "readOnly": True}]},
    ),
]


@pytest.mark.parametrize(("ours", "patch", "merged"), CASES)
def test_a_patch_completes_and_replaces(ours: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    before = yaml.safe_dump(ours)

    assert merge(ours, patch) == merged
    assert yaml.safe_dump(ours) == before
    assert merge(merged, patch) == merged  # once is enough


def test_a_patch_reaches_what_no_option_says(tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text("spec: {suspend: true, trainer: {numNodes: 9}}\n")

    spec = write("trainjob", "--patch", str(file), "smoke").manifest["spec"]

    assert (spec["suspend"], spec["trainer"]["numNodes"], spec["trainer"]["args"]) == (True, 9, ["smoke"])


ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    "text",
    [
        "- a list\n", "not: [closed\n", "", b"\xff\xfe", ALIASES, "a: &a {b: *a}", "a: &b 1",
        "a: " + "[" * 3000 + "]" * 3000, "a:" + " - " * 60 + "1", "#" * (options.LONGEST + 1),
    ],
)  # fmt: skip
def test_a_file_that_is_no_patch_is_refused(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "patch.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())

    printed = write("trainjob", "--patch", str(file))

    assert printed.code == 2 and "--patch" in printed.err


def test_bytes_that_are_not_utf_8_are_in_no_manifest(tmp_path: Path) -> None:
    """Whether a word has them or a file: kubectl refuses the escape that Python writes of them."""
    (tmp_path / "patch.yaml").write_text('{metadata: {annotations: {a: "\\udcff"}}}')
    for words in (("--patch", str(tmp_path / "patch.yaml")), ("train.py", "/\udcff"), ("--env", "A=\udcff")):
        printed = write("job", *words)
        first, second = printed.err.splitlines()
        assert (printed.code, printed.out) == (2, "")
        assert first.startswith("error: ") and second.startswith("  try: ")


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("typed", [(), ("train.py", "--epochs", "3")])
def test_a_script_of_this_machine_runs_in_all_pods(tmp_path: Path, kind: str, typed: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    files = [word for name in ("train.py", "helper.py") for word in ("--script", str(tmp_path / name))]

    printed = write(kind, "--name", "mine", *files, *typed)

    config = printed.objects[0]
    assert (config["kind"], config["metadata"]["name"]) == ("ConfigMap", "mine-scripts")
    assert config["data"] == {"train.py": "import helper\n", "helper.py": "A = 1\n"}
    arguments = {" ".join(one["args"]) for one in list_containers(printed.manifest)} - {"worker"}
    assert arguments == {" ".join(["/workspace/job/train.py", *typed[1:]])}
    for pod in list_pods(printed.manifest):
        assert {"name": "scripts", "configMap": {"name": "mine-scripts", "defaultMode": 0o555}} in pod["volumes"]


@pytest.mark.parametrize(
    ("content", "said"), [("x" * 200_001, "too large for a ConfigMap"), (None, "that can be read")]
)
def test_a_script_that_no_pod_would_have_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "train.py").write_text(content)

    printed = write("trainjob", "--script", str(tmp_path / "train.py"))

    assert printed.code == 2 and said in printed.err


def test_two_scripts_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    files = [tmp_path / "train.py", tmp_path / "more" / "train.py"]
    for file in files:
        file.write_text(f"# {file}\n")

    printed = write("trainjob", *(word for file in files for word in ("--script", str(file))))

    assert printed.code == 2 and "the same name" in printed.err


def test_a_runtime_takes_no_script_for_its_jobs_are_in_any_namespace(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")

    assert write("runtime", "--script", str(tmp_path / "train.py")).code == 2
