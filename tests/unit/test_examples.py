"""The files of examples/ that are copied: what they say is taken by our programs, and by what reads them."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from multinode_image.tasks.command import SCRIPT, read_command
from tests.support.harness import ROOT
from tests.support.launchers import left_by
from tests.support.manifests import run

EXAMPLES = ROOT / "examples"
BASE, TEAM = EXAMPLES / "kustomize/base", EXAMPLES / "kustomize/team"
# sbatch(1)
SBATCH = {"job-name", "nodes", "ntasks-per-node", "exclusive", "output"}


def read_commands(text: str) -> list[list[str]]:
    """List the words of each line of shell; a line that goes on is one."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def check_trains(words: list[str], image: str, place: Path) -> None:
    """Check that what follows the image trains the script."""
    (place / "train.py").touch()
    command = read_command(words[words.index(image) + 1 :], {}, lambda *_: None)
    assert (command.kind, command.name) == (SCRIPT, "train.py")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_job_of_skypilot_trains_and_hands_its_place_on(place: Path) -> None:
    task = yaml.safe_load((EXAMPLES / "sky.yaml").read_text())
    (words,) = read_commands(task["run"])

    check_trains(words, "$IMAGE", place)
    handed = {name for option, name in pairwise(words) if option == "-e"}
    assert task["num_nodes"] > 1 and left_by("skypilot").keys() - handed == {"SKYPILOT_NUM_GPUS_PER_NODE"}


def test_the_batch_file_of_slurm_trains_on_each_node(place: Path) -> None:
    text = (EXAMPLES / "apptainer.sbatch").read_text()
    *_, words = read_commands(text)

    options = dict(re.findall(r"(?m)^#SBATCH --([a-z-]+)(?:=(\S+))?$", text))
    assert options.keys() == SBATCH and len(re.findall("(?m)^#SBATCH", text)) == len(options)
    assert words[:4] == ["srun", "--kill-on-bad-exit=1", "apptainer", "run"]
    check_trains(words, "image.sif", place)


def test_the_base_of_kustomize_is_what_the_script_prints() -> None:
    (typed,) = re.findall(r"(?m)^# python scripts/manifest\.py (.*)$", (BASE / "kustomization.yaml").read_text())

    assert run(*shlex.split(typed)).out == (BASE / "job.yaml").read_text()


def test_what_a_team_changes_is_in_the_base() -> None:
    objects = [*yaml.safe_load_all((BASE / "job.yaml").read_text())]
    team = yaml.safe_load((TEAM / "kustomization.yaml").read_text())

    (patch,) = team["patches"]
    (job,) = [manifest for manifest in objects if manifest["kind"] == patch["target"]["kind"]]
    assert job["metadata"]["name"] == patch["target"]["name"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].startswith(team["images"][0]["name"] + ":")
    for change in yaml.safe_load(patch["patch"]):
        value = job
        for step in change["path"].strip("/").split("/"):
            value = value[int(step) if step.isdigit() else step] if step != "-" else value
        assert value, change


def test_an_editor_starts_in_an_image_of_ones_own() -> None:
    container = json.loads((EXAMPLES / "devcontainer.json").read_text())

    assert container["image"] and container["overrideCommand"] is True and container["remoteUser"] == "multinode"
