"""The command line of scripts/manifest.py: what is printed where, and what is refused, in three parts."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path

import pytest

from manifests import cli
from tests.support.manifests import IMAGE, JOBS, SIZES, list_pods, run, write

# Kind, what is typed beside an image and sizes, a piece of the fact, the value, and of what to type instead.
MISTAKES = [
    ("pytorchjob", ["--name", "a" * 55], "at most 54", "a" * 55, f"--name {'a' * 54}"),
    ("pytorchjob", ["--name", "a" * 54, "--workers", "11"], "at most 53", "a" * 54, f"--name {'a' * 53}"),
    ("pytorchjob", ["--nproc", "9"], "each process needs a core", "8 core(s), 9 process(es)", "--cpu 9"),
    ("pytorchjob", ["--cpu", "500m"], "each process needs a core", "500m CPUs", "--cpu 1"),
    ("pytorchjob", ["--memory", "64Mi"], "training a small model takes 2.0 GB", "--memory 64Mi", "--memory 2048Mi"),
    ("pytorchjob", ["--memory", "3Gi", "--nproc", "2"], "2.0 GB for each of 2 process(es)", "3Gi", "--memory 4096Mi"),
    ("pytorchjob", ["--memory", "3Gi", "--shm", "2Gi"], "training a small model", "--shm 2Gi", "--memory 4096Mi"),
    ("pytorchjob", ["--mount", "/data", "qa", "--output_dir", "/workspace/output/qa"], "would not be on the claim",
     "/workspace/output/qa, not in /data", "--output_dir /data/qa"),
    ("runtime", ["--mount", "/data"], "results would not be on the claim", "/workspace/output/qa, not in /data",
     "--output_dir /data/qa"),
    ("pytorchjob", ["--name", "huggingface"], "downloads are in this directory", "/workspace/output/huggingface",
     "--output_dir /workspace/output/qa"),
    ("pytorchjob", ["qa", "--output_dir", "/workspace/output/../x"], "results would not be on the claim",
     "/workspace/output/../x", "--output_dir /workspace/output/qa"),
    ("pytorchjob", ["qa", "--output_dir", "//workspace/output//huggingface/x"], "downloads are in this directory",
     "//workspace/output//huggingface/x", "--output_dir /workspace/output/qa"),
    ("prefetch", ["--env", "HF_HOME=/workspace/output/../x"], "downloads would not be on the claim", "/../x, not in",
     "leave HF_HOME out"),
    ("pytorchjob", ["glue", "--output_d", "/tmp/x"], "results would not be on the claim", "/tmp/x",
     "--output_dir /workspace/output/glue"),
    ("pytorchjob", ["glue", "--output_dir=/tmp/x"], "results would not be on the claim", "/tmp/x",
     "--output_dir /workspace/output/glue"),
    ("pytorchjob", ["--env", "PET_NPROC_PER_NODE=x"], "the operator sets", "PET_NPROC_PER_NODE", "leave"),
    ("trainjob", ["--env", "PET_NNODES=x"], "to itself", "PET_NNODES", "leave"),
    ("pytorchjob", ["--env", "PET_NNODES=2"], "the operator sets this variable", "PET_NNODES", "leave PET_NNODES"),
    ("pytorchjob", ["--env", "MULTINODE_WORLD_SIZE=99"], "smaller than MULTINODE_WORLD_SIZE", "1:32 of 99",
     "leave out --env"),
    ("pytorchjob", ["--env", "MULTINODE_WORLD_SIZE=9", "--nproc", "2"], "smaller than", "2:8 of 9", "start 9"),
    ("pytorchjob", ["--node-shape", "2x4", "--env", "MULTINODE_WORLD_SIZE=16"], "smaller than", "2:8 of 16",
     "leave out --env"),
    ("pytorchjob", ["--elastic", "off", "--env", "MULTINODE_WORLD_SIZE=2"], "is larger than", "4:32 of 2", "start 2"),
    ("pytorchjob", ["--env", "MULTINODE_WORLD_SIZE=two"], "neither a number above 0", "'two'", "or 1:4"),
    ("trainjob", ["--env", "MULTINODE_WORLD_SIZE=8"], "is smaller than MULTINODE_WORLD_SIZE", "4 of 8", "start 8"),
    ("mpijob", ["--env", "MULTINODE_WORLD_SIZE=8"], "is smaller than MULTINODE_WORLD_SIZE", "4 of 8", "start 8"),
    ("runtime", ["--env", "MULTINODE_WORLD_SIZE=two"], "neither a number above 0", "'two'", "or 1:4"),
    ("pytorchjob", ["--env", "MULTINODE_TIMEOUT=1m"], "MULTINODE_TIMEOUT is not a number", "'1m'",
     "--env MULTINODE_TIMEOUT=60, or leave out --env MULTINODE_TIMEOUT"),
    ("trainjob", ["--env", "PET_NNODES=2"], "Trainer keeps this variable", "--env PET_NNODES", "leave PET_NNODES out"),
    ("mpijob", ["--env", "K_MPI_JOB_ROLE=launcher"], "the operator sets this variable", "K_MPI_JOB_ROLE", "leave"),
    ("trainjob", [word for n in range(128) for word in ("--env", f"A{n}=1")], "at most 128", "129", "fewer --env"),
    ("pytorchjob", ["--node-shape", "1x4"], "a node has fewer CPUs", "4 of 8", "--cpu 4"),
    ("trainjob", ["--name", "a" * 49], "at most 48", "a" * 49, f"--name {'a' * 48}"),
    ("mpijob", ["--name", "a" * 55], "at most 54", "a" * 55, f"--name {'a' * 54}"),
    ("mpijob", ["--name", "a" * 53, "--workers", "101"], "at most 52", "a" * 53, f"--name {'a' * 52}"),
    ("runtime", ["--policy", "mpi", "--env", "OMPI_MCA_plm_rsh_args=-v"], "Trainer keeps this variable", "plm_rsh_args",
     "leave OMPI_MCA_plm_rsh_args out"),
    ("pytorchjob", ["qa", "--token", "hf_x"], "is read by everybody", "--token", "--token-secret hf-token"),
    ("prefetch", ["qa", "--hub_token=hf_x"], "is read by everybody", "--hub_token", "--token-secret hf-token"),
    ("pytorchjob", ["qaa"], "neither a task nor a program", "qaa", "qa"),
    ("pytorchjob", ["image-classification"], "neither a task nor a program", "image-classification", "run_NAME.py"),
    ("pytorchjob", ["worker"], "nothing that can be trained", "worker", "a task, such as qa"),
    ("pytorchjob", ["prefetch", "qa"], "names the command `prefetch` itself", "prefetch qa", "the task alone: qa"),
    ("prefetch", ["--env", "HF_HUB_OFFLINE=1"], "prefetch asks the hub, and may not", "HF_HUB_OFFLINE=1",
     "leave out --env HF_HUB_OFFLINE"),
    ("prefetch", ["--env", "HF_HOME=/tmp/hub"], "downloads would not be on the claim", "HF_HOME=/tmp/hub, not in",
     "leave HF_HOME out"),
    ("prefetch", ["--env", "BASE=/tmp", "--env", "HF_HOME=$(BASE)/hub"], "would not be on the claim",
     "HF_HOME=/tmp/hub, not in", "leave HF_HOME out"),
    ("prefetch", ["smoke"], "nothing that can be fetched", "smoke", "a task, such as qa"),
    ("mpijob", ["python3", "train.py"], "would train in the launcher alone", "python3", "the script itself: train.py"),
    ("mpijob", ["/usr/bin/python3", "-m", "train"], "in the launcher alone", "/usr/bin/python3", "itself: train.py"),
    ("mpijob", ["torchrun", "--nnodes", "2", "mine.py"], "in the launcher alone", "torchrun", "itself: mine.py"),
    ("mpijob", ["accelerate", "launch", "mine.py"], "in the launcher alone", "accelerate", "itself: mine.py"),
    ("runtime", ["--policy", "mpi", "python", "a/b.py"], "in the launcher alone", "python", "itself: a/b.py"),
    ("prefetch", ["train.py"], "nothing that can be fetched", "train.py", "a task, such as qa"),
    ("pytorchjob", ["qa", *["--bf16"] * 128], "at most 128 arguments", "131", "a file of arguments"),
    ("pytorchjob", ["qa", "a\0b"], "no text that a container can be given", "a\\x00b", "a shorter one"),
    ("pytorchjob", ["qa", "\udcff"], "no text that a container can be given", "udcff", "a shorter one"),
    ("pytorchjob", ["qa", "a" * ((1 << 20) + 1)], "no text that a container can be given", "'aaa", "a shorter one"),
    ("pytorchjob", ["--", "--workers", "2"], "unknown, or comes after the task", "--workers", "--help shows"),
    ("pytorchjob", ["--worker", "2"], "the command line cannot be read", "--worker", "pytorchjob --help"),
    ("pytorchjob", ["--cpu", "8", "--nproc", "6", "--node-shape", "1x4x2"], "a core of its own", "4 core(s)",
     "--nproc 4"),
    ("pytorchjob", ["--name"], "the command line cannot be read", "--name: expected one argument", "--help"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words", "fact", "value", "remedy"), MISTAKES)
def test_a_mistake_has_three_parts(kind: str, words: list[str], fact: str, value: str, remedy: str) -> None:
    printed = write(kind, *words)

    first, second = printed.err.splitlines()
    assert (printed.code, printed.out) == (2, "")
    assert first.startswith("error: ") and fact in first and value in first
    assert second.startswith("  try: ") and remedy in second


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["pytorchjob", *SIZES], "--image"),
        ([], "pytorchjob"),
        (["deployment"], "deployment"),
    ],
)
def test_what_is_missing_is_named(words: list[str], needed: str) -> None:
    printed = run(*words)

    first, second = printed.err.splitlines()
    assert (printed.code, printed.out) == (2, "")
    assert first.startswith("error: ") and needed in first
    assert second.startswith("  try: ")


@pytest.mark.parametrize("kind", [*JOBS, "runtime", "prefetch", "pvc"])
def test_the_same_options_give_the_same_bytes(kind: str) -> None:
    assert write(kind).out == write(kind).out


@pytest.mark.parametrize(
    ("image", "said"), [(IMAGE, False), ("a:1", True), (f"localhost:5000/a/b:1@sha256:{'f' * 64}", False)]
)
def test_a_tag_is_noted(image: str, said: bool) -> None:
    printed = write("pytorchjob", "--image", image)

    assert (
        printed.manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"] == image
    )
    assert ("the image has no digest" in printed.err) is said


def test_values_that_yaml_would_take_for_others_stay_text() -> None:
    words = ("--env", "A=yes", "--env", "B=012", "--env", "C=", "--env", "D=a: b #c\nd", "--env", "E=\u00e9")
    variables = list_pods(write("pytorchjob", *words).manifest)[0]["containers"][0]["env"]

    assert {row["name"]: row["value"] for row in variables if len(row["name"]) == 1} == {
        "A": "yes", "B": "012", "C": "", "D": "a: b #c\nd", "E": "\u00e9",
    }  # fmt: skip


OF_OTHER_TYPES = "5e-5 1e3 1E3 -1.5e+3 .5e1 1_0e5 08 +08 0o17 0O17 0X1F -0xff 0B1 y Y n N"
OF_OTHER_TYPES += " 1e1_0 1e_5 1e_+5 +_1 -_5 -_.5 1_0.5_0e1_1 0_x1F +_0x1 0_b1 -0_o7"


@pytest.mark.parametrize("text", OF_OTHER_TYPES.split())
def test_what_kubectl_would_take_for_another_type_is_quoted(text: str) -> None:
    printed = write("pytorchjob", "--env", f"A={text}", "qa", "--learning_rate", text).out

    lines = [line.strip() for line in printed.splitlines()]
    assert f"value: '{text}'" in lines
    assert f"- '{text}'" in lines


@pytest.mark.parametrize("text", ["yes-or-no", "node0", "e5", "1.2.3", "5e-5x", "0xyz", "nn"])
def test_other_text_is_not_quoted(text: str) -> None:
    assert f"value: {text}" in write("pytorchjob", "--env", f"A={text}").out


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("pytorchjob", "--help")

    assert ended.value.code == 0
    assert "--node-shape" in capsys.readouterr().out


@pytest.mark.parametrize(("path", "why"), [("/dev/full", "No space left on device"), (None, "it is closed")])
def test_a_manifest_that_cannot_be_written_is_said(path: str | None, why: str) -> None:
    err = io.StringIO()
    with nullcontext() if path is None else Path(path).open("w") as out:
        code = cli.main(("pvc",), out, err)

    assert code == 1
    first, second = err.getvalue().splitlines()
    assert first == f"error: the manifest cannot be written: {why}"
    assert second == "  try: > FILE, where there is room for it"


@pytest.mark.parametrize("path", ["/dev/full", None])
@pytest.mark.parametrize(("words", "code"), [(("trainjob", "--image", "a:1", *SIZES), 0), (("pvc", "--size", "30"), 2)])
def test_a_message_that_cannot_be_written_changes_nothing(path: str | None, words: tuple[str, ...], code: int) -> None:
    out = io.StringIO()
    with nullcontext() if path is None else Path(path).open("w") as err:
        assert cli.main(words, out, err) == code

    assert bool(out.getvalue()) is (code == 0)


@pytest.mark.parametrize("value", ["True", "false", "False"])
def test_a_flag_in_the_place_of_a_token_is_none(value: str) -> None:
    assert write("pytorchjob", "qa", "--use_auth_token", value).code == 0


def test_no_message_has_the_token() -> None:
    for words in (["--env", "HF_TOKEN=hf_secret"], ["qa", "--token", "hf_secret"], ["qa", "--hub_token=hf_secret"]):
        assert "hf_secret" not in write("pytorchjob", *words).err
