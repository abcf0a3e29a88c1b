"""The YAML that is written and patched: any text comes back as it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manifests import options
from manifests.patch import merge
from manifests.yaml_writer import write_yaml
from tests.support.manifests import JOBS, KINDS, LOADER, list_containers, list_options, list_pods, write

# Pieces of scripts, beside characters of any kind.
PIECES = [
    "a",
    "b: c",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "#",
    "- ",
    "---",
    "...",
    "|",
    "'",
    '"',
    "\\n",
    "é",
    "語",
    "\U0001f600",
]
HELD = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ANY = st.text(st.one_of(st.sampled_from("a \t\n"), st.characters(exclude_categories=["Cs"])), max_size=12)
# What no block can hold, and what a reviewer would not see.
QUOTED = "\x00 \x07 \x1b[1A \r \x7f \x85 \u2028 \u2029 \ufeff \uffff \u202e \u2066 \u200f"


def nest(text: str) -> list[dict[str, Any]]:
    """Put a text wherever a manifest has one, with a document behind it."""
    spec = {"args": [text, text], "env": [{"name": "A", "value": text}], "last": text}
    return [{"data": {"train.py": text, "more": text}}, {"spec": spec}, {"kind": "Job", "text": text}]


def write_script(text: str) -> str:
    """Return a ConfigMap as it is printed."""
    return write_yaml([{"data": {"train.py": text}}])


@pytest.mark.parametrize("loader", [yaml.SafeLoader, LOADER])
@given(text=st.one_of(HELD, ANY))
@example("a  \n")
@example("\ta\n")
@example("\n \n\t\n")
@example(" \n")
@example("a\n\n ")
@example("a\n\t")
def test_any_text_is_read_back(loader: Any, text: str) -> None:
    objects = nest(text)

    assert [*yaml.load_all(write_yaml(objects), loader)] == objects


@given(text=HELD)
def test_what_has_lines_is_a_block(text: str) -> None:
    lines = text.split("\n")

    printed = write_script(text)

    assert ("  train.py: |" in printed) is (len(lines) > 1)
    if len(lines) > 1:
        indented = "".join(f"    {line}\n" if line else "\n" for line in lines)
        assert indented.rstrip("\n") in printed


@pytest.mark.parametrize("text", QUOTED.split(" "))
def test_what_a_block_cannot_hold_is_escaped(text: str) -> None:
    printed = write_script(f"a\n{text}\n")

    assert '  train.py: "a\\n' in printed and printed.isascii() and printed.replace("\n", "").isprintable()


def test_a_changed_line_is_one_line_of_a_difference() -> None:
    script = "import os\n\nfor name in os.environ:  # “all”\n\tprint(name)  \n"

    before, after = (write_script(text).splitlines() for text in (script, script.replace("print", "repr")))

    assert [line for line in after if line not in before] == ["    \trepr(name)  "]
    assert not any(re.search(r"\\[ntxu]", line) for line in after)
    assert write_yaml([{"a": f"{'word ' * 30}."}]) == f"a: {'word ' * 30}.\n"


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
    (
        {"a": [{"name": "v", "mountPath": "/a"}]},
        {"a": [{"name": "v", "b": 1}]},
        {"a": [{"name": "v", "mountPath": "/a", "b": 1}]},
    ),
    ({"a": [{"name": "v"}]}, {"a": 5}, {"a": 5}),
    ({"a": [{"b": 1}]}, {"a": [{"name": "v"}]}, {"a": [{"name": "v"}]}),
    ({"a": [{"name": "v"}]}, {"a": [{"name": "v"}, {"b": 1}]}, {"a": [{"name": "v"}, {"b": 1}]}),
]


@pytest.mark.parametrize(("ours", "patch", "merged"), CASES)
def test_a_patch_completes_and_replaces(ours: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    before = yaml.safe_dump(ours)

    assert merge(ours, patch) == merged
    assert yaml.safe_dump(ours) == before
    assert merge(merged, patch) == merged  # once is enough


def test_a_patch_reaches_what_no_option_says(tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    wide = f"[{', '.join(['[]'] * 60)}]"
    file.write_text(f"spec: {{suspend: true, trainer: {{numNodes: 9}}, more: {wide}, deep: {'[' * 48}{']' * 48}}}\n")

    spec = write("trainjob", "--patch", str(file), "smoke").manifest["spec"]

    assert (spec["suspend"], spec["trainer"]["numNodes"], spec["trainer"]["args"]) == (True, 9, ["smoke"])


ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    "text",
    [
        "- a list\n", "not: [closed\n", "", b"\xff\xfe", ALIASES, "a: &a {b: *a}", "a: &b 1",
        "spec: {deep: " + "[" * 49 + "]" * 49 + "}",
        "a: " + "[" * 3000 + "]" * 3000, "a:" + " - " * 60 + "1", "a: 1\n#" + "#" * options.LONGEST,
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
        assert {"name": "scripts", "mountPath": "/workspace/job"} in pod["containers"][0]["volumeMounts"]


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
