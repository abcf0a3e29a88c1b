"""What scripts/manifest.py is asked for, and what it prints or refuses."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from manifests import cli
from multinode_image import timeouts
from tests.support.manifests import IMAGE, JOBS, SIZES, list_containers, list_pods, run, write

POD_KINDS = [(kind,) for kind in (*JOBS, "runtime", "prefetch")]
# Kind, what is typed beside an image and sizes; a piece of the fact or value; of what to type instead.
# A pod's name is a label of 63: the Master's ends in -master-0, a Worker's may be longer.
MISTAKES = """
pytorchjob | --name 1QA                                      | at most 54 | --name qa
pytorchjob | --elastic off --workers 4 --name 1QA            | at most 54 | --name qa
pytorchjob | --elastic off --workers 20 --name 1QA           | at most 53 | --name qa
pytorchjob | --elastic 2:10 --name 1QA                       | at most 54 | --name qa
pytorchjob | --elastic 2:101 --name 1QA                      | at most 52 | --name qa
pytorchjob | --name a.b                                      | a.b | --name a-b
pytorchjob | --name 1.                                       | at most 54 | --name transformers
mpijob     | --workers 10 --name 1QA                         | at most 54 | --name qa
mpijob     | --workers 11 --name 1QA                         | at most 53 | --name qa
trainjob   | --workers 10 --name 1QA                         | at most 48 | --name qa
runtime    | --name 1QA                                      | at most 63 | --name qa
trainjob   | --workers 11 --name 1QA                         | at most 47 | --name qa
job        | --workers 10 --name 1QA                         | at most 55 | --name qa
job        | --workers 11 --name 1QA                         | at most 54 | --name qa
mpijob     | --name aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | at most 54 | --name aaa
trainjob   | --name aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa       | at most 48 | --name aaa
pytorchjob | --workers 0                                     | takes a number, at least 1 | --help
pytorchjob | --cpu 0                                         | --cpu: takes a number, at least 1 | --help
pytorchjob | --memory 64                                     | --memory: takes a size with its unit | --help
pytorchjob | --memory 64GB                                   | --memory: takes a size with its unit | --help
pytorchjob | --uid 0                                         | --uid: takes a number, at least 1 | --help
pytorchjob | --mount output                                  | --mount: takes a directory | --help
pytorchjob | --mount /usr/lib                                | hides nothing of the image | --help
pytorchjob | --mount /workspace                              | hides nothing of the image | --help
pytorchjob | --volume data:/dev/shm                          | hides nothing of the image | --help
pytorchjob | --volume data                                   | --volume: takes a directory | --help
pytorchjob | --volume data:/workspace/data:rx                | or CLAIM:DIRECTORY:ro | --help
pytorchjob | --volume data:/workspace/output                 | output, /workspace/output | --volume CLAIM:ANOTHER
job        | --name aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | at most 55 | --name aaa
pytorchjob | --toleration gpu:Never                          | takes KEY or KEY=VALUE | --help
pytorchjob | --env-from pod/x                                | takes SECRET, or configmap/NAME | --help
trainjob   | --priority-class x                              | unrecognized arguments: --priority-class | --help
pytorchjob | --node-selector spr                             | takes NAME=VALUE | --help
pytorchjob | --node-selector zone/=a                         | takes a key | --help
pytorchjob | --node-selector A_b.example/zone=a              | takes a key | --help
pytorchjob | --node-selector zone=-a                         | takes a value | --help
pytorchjob | --node-affinity zone=a,b/c                      | takes a value | --help
pytorchjob | --node-selector a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | takes a value | --help
pytorchjob | --toleration gpu-=x                             | takes a key | --help
pytorchjob | --toleration gpu=a:b:NoSchedule                 | takes KEY or KEY=VALUE | --help
pytorchjob | --toleration gpu=a/b                            | takes a value | --help
pytorchjob | --env 1=x                                       | takes the name of a variable | --help
pytorchjob | --env ..=x                                      | takes the name of a variable | --help
pytorchjob | --env-secret A+B=mine:key                       | takes the name of a variable | --help
pytorchjob | --elastic 5:8                                   | not between the fewest and the most | --elastic 4:4
pytorchjob | --elastic 4                                     | --elastic: takes a number | --help
trainjob   | --ttl 60                                        | unrecognized arguments: --ttl | --help
trainjob   | --deadline 0                                    | at least 1 | --help
job        | --elastic 2:4                                   | unrecognized arguments | --help
pytorchjob | --worker 2                                      | unrecognized arguments | --help
pytorchjob | -- --workers 2                                  | comes after the task | --help shows
pytorchjob | qaa                                             | neither a task for text nor a program | qa or a script
pytorchjob | image-classification                            | neither a task for text nor a program | run_NAME.py
pytorchjob | worker                                          | nothing that can be trained | a task
prefetch   | train.py                                        | nothing that can be fetched | a task
pytorchjob | --nproc 9                                       | each process needs a core | --cpu 9
pytorchjob | --mount /data qa --output_dir /workspace/output | not in /data | --output_dir /data/qa
pytorchjob | train.py --output_dir /tmp/x                    | lost with the pod | --output_dir /workspace/output/train
pytorchjob | qa --output_d=../x                              | lost with the pod | --output_dir /workspace/output/qa
pytorchjob | --name huggingface                              | among the downloads | --output_dir /workspace/output/qa
runtime    | --mount /data                                   | lost with the pod | --output_dir /data/qa
prefetch   | --env HF_HOME=/workspace/output/../x            | lost with the pod | --env HF_HOME=/workspace/output/hugg
pytorchjob | python train.py                                 | each pod would train a model of its own | train.py, which
trainjob   | /usr/bin/python3.11 -u a/b.py --bf16            | of its own: /usr/bin/python3.11 in 4 pods | a/b.py
runtime    | python3 -m mine.train                           | each pod would train | -m mine.train, which
pytorchjob | accelerate launch mine.py                       | each pod would train | mine.py, which
mpijob     | --workers 1 python3 train.py                    | and scripts only: python3 | the script itself: train.py
mpijob     | /opt/python3.11 -m mine.train                   | in the launcher alone | the script itself: -m mine.train
mpijob     | torchrun --nnodes 2 mine.py                     | in the launcher alone | the script itself: mine.py
mpijob     | accelerate launch mine.py                       | in the launcher alone | the script itself: mine.py
trainjob   | --pvc NAME                                      | --pvc: takes the name of an object | --help
trainjob   | --volume CLAIM:/workspace/data                  | in the cluster: small letters | --help
trainjob   | --env-secret MINE=SECRET:KEY                    | --env-secret: takes the name of an object | --help
job        | --env-from <SECRET>                             | --env-from: takes the name of an object | --help
job        | --queue a_b                                     | --queue: takes the name of an object | --help
mpijob     | --env MULTINODE_SSH_PORT=0                      | MULTINODE_SSH_PORT is not a port | MULTINODE_SSH
"""
SECRETS = """
--env HF_TOKEN=S3CRET                                 | --env-secret HF_TOKEN=mine:HF_TOKEN
--env WANDB_API_KEY=S3CRET                            | --env-secret WANDB_API_KEY=mine:WANDB_API_KEY
--env AWS_SECRET_ACCESS_KEY=S3CRET                    | kubectl create secret generic mine
--env HTTPS_PROXY=http://u:S3CRET@proxy:3128          | --env-secret HTTPS_PROXY=mine:HTTPS_PROXY
--env https_proxy=u:S3CRET@proxy:3128                 | --env-secret https_proxy=mine:https_proxy
--env URL=https://h/f?X-Amz-Signature=S3CRET          | --env-secret URL=mine:URL
--env STORE=a=b;AccountKey=S3CRET                     | --env-secret STORE=mine:STORE
qa --token S3CRET                                     | --token '$(MINE)'
qa --hub_token=S3CRET                                 | --hub_token '$(MINE)'
train.py --data https://u:S3CRET@h/x                  | --data '$(MINE)'
"""


def rows(table: str) -> list[list[str]]:
    return [[part.strip() for part in row.split(" | ")] for row in table.strip().splitlines()]


@pytest.mark.parametrize(("kind", "words", "fact", "remedy"), rows(MISTAKES))
def test_a_mistake_has_three_parts(kind: str, words: str, fact: str, remedy: str) -> None:
    printed = write(kind, *words.split())

    first, second = printed.err.splitlines()
    assert (printed.code, printed.out) == (2, "")
    assert first.startswith("error: ") and fact in first
    assert second.startswith("  try: ") and remedy in second


@pytest.mark.parametrize("words", [[], ["deployment"], ["pytorchjob", *SIZES], ["pytorchjob", "--image", IMAGE]])
def test_what_is_missing_is_named(words: list[str]) -> None:
    printed = run(*words)

    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith("error: the command line cannot be read: ")


@pytest.mark.parametrize(
    ("words", "named"),
    [("--namespace x", "--namespace"), ("--nmae=x --cpu 2", "--nmae"), ("--name --cpu --cpus 4", "--cpus")],
)
def test_an_option_that_is_not_there_is_named_before_those_that_are_missing(words: str, named: str) -> None:
    assert f"unrecognized arguments: {named}\n" in run("runtime", *words.split()).err


@pytest.mark.parametrize(("mode", "mount"), [("", {}), (":rw", {}), (":ro", {"readOnly": True})])
def test_pods_may_only_read_a_claim_where_that_is_typed(mode: str, mount: dict[str, bool]) -> None:
    manifest = write("pytorchjob", "--volume", f"corpus:/workspace/corpus{mode}").manifest

    for one in list_containers(manifest):
        mounts = [mounted for mounted in one["volumeMounts"] if mounted["name"] == "data-0"]
        assert mounts == [{"name": "data-0", "mountPath": "/workspace/corpus", **mount}]


@pytest.mark.parametrize(("words", "remedy"), rows(SECRETS))
@pytest.mark.parametrize("kind", [*JOBS, "runtime"])
def test_a_secret_is_in_no_manifest_and_in_no_message(kind: str, words: str, remedy: str) -> None:
    printed = write(kind, *words.split())

    assert printed.code == 2 and remedy in printed.err
    assert "S3CRET" not in printed.out + printed.err


@pytest.mark.parametrize(
    "words",
    [
        "--env HTTPS_PROXY=http://proxy:3128 --env GOOGLE_APPLICATION_CREDENTIALS=/secrets/key.json",
        "--env-secret MINE=hf:token qa --hub_token $(MINE)",
        "--env-secret MINE=hf:token --env HUB_TOKEN=$(MINE)",
        "qa --use_auth_token True --tokenizer_name bert --max_new_tokens 5",
    ],
)
def test_what_is_no_secret_is_taken(words: str) -> None:
    assert write("pytorchjob", *words.split()).code == 0


@pytest.mark.parametrize("words", POD_KINDS)
def test_a_pod_may_do_little(words: tuple[str, ...]) -> None:
    """The `restricted` profile of the Pod Security Standards, a read-only root, no token, no Services' variables."""
    manifest = write(*words, "--uid", "1000680000").manifest

    for one in list_pods(manifest):
        context = one["securityContext"]
        assert context["runAsNonRoot"] and context["runAsUser"] == context["fsGroup"] == 1000680000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        if words != ("trainjob",):  # a patch of its runtime cannot say it
            assert one["automountServiceAccountToken"] is False and one["enableServiceLinks"] is False
    for container in list_containers(manifest):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "typed", "args"),
    [
        ("pytorchjob", "--name mine", "qa --bf16 --output_dir /workspace/output/mine"),
        ("trainjob", "--name mine --mount /data glue", "glue --output_dir /data/mine"),
        ("mpijob", "glue", "glue --output_dir /workspace/output/transformers-mpijob"),
        ("pytorchjob", "qa --output-dir=/workspace/output", "qa --output-dir=/workspace/output"),
        ("pytorchjob", "qa --output_d /workspace/output/a", "qa --output_d /workspace/output/a"),
        ("pytorchjob", "--volume big:/big qa --output_dir /big/a", "qa --output_dir /big/a"),
        ("pytorchjob", "qa args.json", "qa args.json"),
        ("pytorchjob", "smoke", "smoke"),
        ("pytorchjob", "train.py", "train.py"),
        ("pytorchjob", "--workers 1 python3 train.py", "python3 train.py"),
        ("pytorchjob", "torchrun train.py", "torchrun train.py"),
        ("pytorchjob", "python3 -m torch.distributed.run train.py", "python3 -m torch.distributed.run train.py"),
        ("mpijob", "python_train.py --bf16", "python_train.py --bf16"),
        ("mpijob", "bash -c hostname", "bash -c hostname"),
        ("runtime", "--name mine", "qa --bf16"),
        ("prefetch", "--name mine", "prefetch qa"),
    ],
)
def test_the_command_of_a_pod(kind: str, typed: str, args: str) -> None:
    assert list_containers(write(kind, *typed.split()).manifest)[0]["args"] == args.split()


@pytest.mark.parametrize(
    ("kind", "words", "said", "args"),
    [
        ("trainjob", "", "the first --script, else qa --bf16", "qa --bf16"),
        ("trainjob", "--script b.py --script a.py", "the first --script, else qa --bf16", "/workspace/job/b.py"),
        ("trainjob", "--script b.py --", "the first --script, else qa --bf16", "/workspace/job/b.py"),
        ("runtime", "", "qa --bf16", "qa --bf16"),
        ("prefetch", "", "qa", "prefetch qa"),
    ],
)
def test_what_pods_run_where_nothing_is_typed_is_in_the_help(
    kind: str, words: str, said: str, args: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    with pytest.raises(SystemExit):
        run(kind, "--help")
    ran = list_containers(write(kind, *words.split()).manifest)[0]["args"]

    assert f"what pods run; default: {said} options:" in " ".join(capsys.readouterr().out.split())
    assert ran[: len(args.split())] == args.split()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("qa", "results: /workspace/output/transformers-pytorchjob, on the claim transformers-pvc"),
        ("--volume big:/big qa --output_dir /big/a", "results: /big/a, on the claim big"),
        ("--volume big:/workspace/output/big qa --output_dir /workspace/output/big/a", "on the claim big"),
        ("train.py --output_dir /workspace/output/a", "results: /workspace/output/a, on the claim transformers-pvc"),
        ("--env D=/workspace/output qa --output_dir $(D)/a", "results: what is written to the claim"),
        ("train.py --output 5", "results: /workspace/output/transformers-pytorchjob, on the claim"),
        ("train.py --save_dir=/workspace/output/a", "results: /workspace/output/a, on the claim transformers-pvc"),
        (
            "train.py",
            "results: /workspace/output/transformers-pytorchjob, on the claim transformers-pvc, if the script",
        ),
        ("--volume big:/big --env MULTINODE_OUTPUT=/big/a bash -c ./train.sh", "results: /big/a, on the claim big, if"),
        ("qa args.json", "results: what is written to the claim transformers-pvc, below /workspace/output, stays"),
    ],
)
def test_where_results_will_be_is_said(words: str, said: str) -> None:
    assert said in write("pytorchjob", *words.split()).err


@pytest.mark.parametrize(
    ("words", "directory"),
    [
        ("--name mine train.py", "/workspace/output/mine"),
        ("--name mine torchrun train.py", "/workspace/output/mine"),
        ("--env MULTINODE_OUTPUT=/workspace/output/a train.py", "/workspace/output/a"),
        ("train.py --output_dir /workspace/output/a", None),
        ("qa", None),
        ("smoke", None),
    ],
)
@pytest.mark.parametrize("kind", ["pytorchjob", "trainjob"])
def test_a_script_is_told_a_directory_of_its_own_job(kind: str, words: str, directory: str | None) -> None:
    """Jobs share the claim, and the directory of one is refused to another."""
    rows = list_containers(write(kind, *words.split()).manifest)[0]["env"]

    assert [row["value"] for row in rows if row["name"] == "MULTINODE_OUTPUT"] == ([directory] if directory else [])


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        ("qa", (1, 4)), ("smoke", (1, 4)), ("train.py", (4, 4)), ("torchrun train.py", (4, 4)),
        ("bash -c ./train.sh", (4, 4)), ("--elastic 2:8 train.py", (2, 8)), ("--elastic off qa", None),
    ],
)  # fmt: skip
def test_a_script_begins_with_all_of_its_pods(words: str, bounds: tuple[int, int] | None) -> None:
    policy = write("pytorchjob", *words.split()).manifest["spec"].get("elasticPolicy")

    assert bounds == (policy and (policy["minReplicas"], policy["maxReplicas"]))


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("pytorchjob --elastic off --workers 1 --max-restarts 0", 0),
        ("pytorchjob --elastic off --workers 1 --max-restarts 10", 11),
        ("pytorchjob --elastic off", 41),
        ("pytorchjob --elastic 2:8 --max-restarts 3", 25),  # it may have become as many as that
        ("mpijob --max-restarts 1", 2),
    ],
)
def test_a_job_fails_after_so_many_restarts_of_all_its_pods(words: str, limit: int) -> None:
    assert write(*words.split()).manifest["spec"]["runPolicy"]["backoffLimit"] == limit


def find_timeouts(manifest: dict[str, Any]) -> list[str]:
    return [row["value"] for row in list_containers(manifest)[0]["env"] if row["name"] == "MULTINODE_TIMEOUT"]


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("pytorchjob --elastic 1:4", [str(timeouts.MASTER)]),
        ("pytorchjob --elastic 1:4 --env MULTINODE_TIMEOUT=60", ["60"]),
        ("pytorchjob --elastic off", []),
        ("mpijob", []),
        # Suspended at first: the operator makes the launcher before the workers.
        ("mpijob --queue q", [str(timeouts.MASTER)]),
    ],
)
def test_pods_wait_for_others_that_pull_the_image(words: str, seconds: list[str]) -> None:
    assert find_timeouts(write(*words.split()).manifest) == seconds


@pytest.mark.parametrize(
    ("words", "said", "other"),
    [
        ("pytorchjob --elastic off", "alpine:3.10", "30 s after"),
        ("pytorchjob qa", "30 s after the first 1", "alpine"),
        (
            "trainjob --queue q --workers 4",
            "one of 4 pod(s) crashes, all pods start again, 1 time(s) at most",
            "digest",
        ),
        ("trainjob --workers 1", "one of 1 pod(s) crashes, all pods start again, 5 time(s) at most", "digest"),
        ("trainjob --workers 6", "one of 6 pod(s) crashes, the job fails", "again"),
        ("trainjob --runtime mine", "4 pod(s) x 1 process(es)", "crash"),
        ("pytorchjob --image a:1", "the image has no digest", "lscpu"),
        ("pytorchjob --nproc 2", "1 to 4 pod(s) x 2 process(es)", "NUMA"),
        ("pytorchjob train.py", "4 pod(s), each with a process for each NUMA node", "1 to 4"),
        ("runtime --nproc 2", "numProcPerNode: 2 belongs into each TrainJob", "NUMA"),
    ],
)
def test_what_somebody_should_know_is_said(words: str, said: str, other: str) -> None:
    printed = write(*words.split())

    assert said in printed.err and other not in printed.err


@pytest.mark.parametrize("words", ["", "--nproc 2 --pvc results --mount /data --workers 9"])
def test_what_is_to_be_typed_for_more_restarts_is_a_command(words: str) -> None:
    said = write("trainjob", *words.split()).err
    typed = re.search(r"python scripts/manifest.py (runtime .*) \| kubectl apply -f -; then add (--runtime \S+) ", said)
    assert typed

    runtime, again = run(*shlex.split(typed[1])).manifest, write("trainjob", *words.split(), *typed[2].split())

    assert runtime["spec"]["template"]["spec"]["failurePolicy"] == {"maxRestarts": 10}
    assert again.manifest["spec"]["runtimeRef"] == {"name": runtime["metadata"]["name"]} and "crash" not in again.err


@pytest.mark.parametrize(
    ("words", "directory"),
    [("", "/home/multinode"), ("smoke", "/home/multinode"), ("/a/train.py", "/home/multinode"), ("train.py", None)],
)
def test_a_runtime_has_a_home_to_write_to_and_works_there(words: str, directory: str | None) -> None:
    """A CustomTrainer of Kubeflow's SDK writes to both; a script of the image is found where it is."""
    manifest = write("runtime", *words.split()).manifest
    [one], [container] = list_pods(manifest), list_containers(manifest)

    assert container.get("workingDir") == directory
    assert {"name": "HOME", "value": "/home/multinode"} in container["env"]
    assert {"name": "home", "mountPath": "/home/multinode"} in container["volumeMounts"]
    assert {"name": "home", "emptyDir": {}} in one["volumes"]


def test_values_that_yaml_would_take_for_others_stay_text() -> None:
    words = ("--env", "A=yes", "--env", "B=012", "--env", "C=", "--env", "D=a: b #c\nd", "--env", "E=\u00e9")
    variables = list_containers(write("pytorchjob", *words).manifest)[0]["env"]

    assert {row["name"]: row["value"] for row in variables if len(row["name"]) == 1} == {
        "A": "yes", "B": "012", "C": "", "D": "a: b #c\nd", "E": "\u00e9",
    }  # fmt: skip


NO_TEXT = "5e-5 1E3 -1.5e+3 .5e1 1_0e5 08 0o17 0X1F -0xff 0B1 y N 1e_+5 -_.5 +_0x1 0_b1"


@pytest.mark.parametrize("text", NO_TEXT.split())
def test_what_kubectl_would_take_for_another_type_is_quoted(text: str) -> None:
    printed = write("pytorchjob", "--env", f"A={text}", "qa", "--learning_rate", text).out

    lines = [line.strip() for line in printed.splitlines()]
    assert f"value: '{text}'" in lines and f"- '{text}'" in lines


@pytest.mark.parametrize("kind", ["pytorchjob", "job"])
def test_a_pod_that_counts_its_processes_itself_is_said_to(kind: str) -> None:
    assert "a process for each NUMA node" in write(kind, "qa").err
    assert "4 pod(s) x 2 process(es)" in write(kind, "--nproc", "2", "qa").err


def test_a_manifest_that_cannot_be_written_is_said_and_its_rest_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would report at its end what is left in the stream."""
    muted, err = list[object](), io.StringIO()

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        def fileno(self) -> int:
            return 7

    out = Full()
    monkeypatch.setattr(cli, "mute", lambda *given: muted.append(given))

    assert cli.main(["pytorchjob", *SIZES, "--image", IMAGE, "smoke"], out, err) == 1
    assert muted == [(out, 7)] and "the manifest cannot be written: No space left on device" in err.getvalue()


ODD = {
    "--workers": "0", "--nproc": "0", "--cpu": "0", "--memory": "1x", "--shm": "x",
    "--pvc": "A_b", "--mount": "data", "--volume": "x", "--disk": "x", "--queue": "A_b", "--label": "x",
    "--annotation": "x", "--env-secret": "x", "--env-from": "A_b", "--uid": "0", "--elastic": "x",
    "--max-restarts": "-1", "--script": "/nowhere", "--patch": "/nowhere", "--deadline": "0", "--ttl": "-1",
    "--service-account": "A_b", "--pull-secret": "A_b", "--priority-class": "A_b",
    "--node-selector": "x", "--node-affinity": "x",
}  # fmt: skip


@pytest.mark.parametrize("option", ODD)
def test_a_value_that_an_option_does_not_take_is_refused_with_its_name(option: str) -> None:
    printed = write("pytorchjob", option, ODD[option])

    assert printed.code == 2 and option in printed.err, printed


@pytest.mark.parametrize(
    "words",
    ["--node-selector example.org/zone=", f"--node-selector {'k' * 63}={'v' * 63}", "--node-affinity zone=a,B_1.x",
     "--toleration x=", "--toleration x=a:NoExecute", "--env _a.b-C=1=2", "--env-secret .A=mine:key"],
)  # fmt: skip
def test_a_label_or_a_variable_of_kubernetes_is_taken(words: str) -> None:
    assert write("pytorchjob", *words.split()).code == 0


@pytest.mark.parametrize("words", ["--workers 1", "--nproc 1", "--cpu 1", "--uid 1", "--max-restarts 0", "--ttl 0"])
def test_the_least_number_that_an_option_takes_is_taken(words: str) -> None:
    assert write("pytorchjob", *words.split()).code == 0
