"""The table of options: what each takes and refuses, and the values that all of them make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from entrypoint.errors import Refusal
from manifests import cli, options
from manifests.options import OPTIONS, of_kind
from manifests.request import ALL, JOBS, PODS, Claim, Job, Shape
from tests.support.manifests import IMAGE, SIZES

NAME_64, LABEL_64 = "a" * 64, "b" * 64

# Kind, what is typed beside an image and sizes, a piece of the fact, the value, and of what to type instead.
MISTAKES = [
    ("pytorchjob", ["--name", "QA"], "--name takes small letters", "'QA'", "--name qa"),
    ("pytorchjob", ["--name", "1qa"], "--name takes small letters", "'1qa'", "--name qa"),
    ("pytorchjob", ["--name", ""], "--name takes small letters", "''", "--name transformers"),
    ("pytorchjob", ["--name", "a.b"], "--name takes small letters", "'a.b'", "--name a-b"),
    ("pytorchjob", ["--name", NAME_64], "at most 63", NAME_64, f"--name {'a' * 63}"),
    ("pytorchjob", ["--namespace", "Kubeflow"], "--namespace takes", "'Kubeflow'", "--namespace kubeflow"),
    ("pytorchjob", ["--image", "oci:layout/"], "--image takes an image", "'oci:layout/'", "registry.example"),
    ("pytorchjob", ["--image", "Upper/Case:1"], "--image takes an image", "'Upper/Case:1'", "registry.example"),
    ("pytorchjob", ["--image", "a@sha256:12"], "--image takes an image", "'a@sha256:12'", "registry.example"),
    ("pytorchjob", ["--image", f"a:{'t' * 129}"], "--image takes an image", "a:ttt", "registry.example"),
    ("pytorchjob", ["--image", "a/" * 249 + "bbb"], "--image takes an image", "a/a/a", "registry.example"),
    ("pytorchjob", ["--workers", "0"], "--workers takes a number from 1 to 10000", "'0'", "--workers 2"),
    ("pytorchjob", ["--workers", "10001"], "--workers takes a number", "'10001'", "--workers 2"),
    ("pytorchjob", ["--workers", "-1"], "--workers takes a number", "'-1'", "--workers 2"),
    ("pytorchjob", ["--workers", "two"], "--workers takes a number", "'two'", "--workers 2"),
    ("pytorchjob", ["--workers", "\u0664"], "--workers takes a number", "\u0664", "--workers 2"),
    ("pytorchjob", ["--nproc", "0"], "--nproc takes a number", "'0'", "--nproc 2"),
    ("pytorchjob", ["--nproc", "gpu"], "--nproc takes a number", "'gpu'", "--nproc 2"),
    ("pytorchjob", ["--nproc", "4097"], "--nproc takes a number", "'4097'", "--nproc 2"),
    ("pytorchjob", ["--cpu", "0"], "--cpu takes a number of CPUs", "'0'", "--cpu 32"),
    ("pytorchjob", ["--cpu", "-4"], "--cpu takes a number of CPUs", "'-4'", "--cpu 32"),
    ("pytorchjob", ["--cpu", "four"], "--cpu takes a number of CPUs", "'four'", "--cpu 32"),
    ("pytorchjob", ["--cpu", "4Gi"], "--cpu takes a number of CPUs", "'4Gi'", "--cpu 32"),
    ("pytorchjob", ["--cpu", "1.0001"], "--cpu takes a number of CPUs", "'1.0001'", "--cpu 32"),
    ("pytorchjob", ["--cpu", "5k"], "--cpu takes a number of CPUs", "'5k'", "--cpu 32"),
    ("pytorchjob", ["--memory", "0"], "--memory takes a number of bytes", "'0'", "--memory 64Gi"),
    ("pytorchjob", ["--memory", "64GB"], "--memory takes a number of bytes", "'64GB'", "--memory 64Gi"),
    ("pytorchjob", ["--memory", "64m"], "--memory takes a number of bytes", "'64m'", "--memory 64Gi"),
    ("pytorchjob", ["--memory", "1e999"], "--memory takes a number of bytes", "'1e999'", "--memory 64Gi"),
    ("pytorchjob", ["--memory", "64"], "--memory is less than 1Mi", "'64'", "--memory 64Gi"),
    ("pytorchjob", ["--shm", "8"], "--shm is less than 1Mi", "'8'", "--shm 8Gi"),
    ("pytorchjob", ["--shm", "big"], "--shm takes a number of bytes", "'big'", "--shm 64Gi"),
    ("pytorchjob", ["--shm", "16Gi"], "counts as memory of the pod", "--shm 16Gi", "a smaller --shm"),
    ("prefetch", ["--shm", "4Gi"], "counts as memory of the pod", "--memory 4Gi", "a smaller --shm"),
    ("pytorchjob", ["--pvc", "My_Claim"], "--pvc takes the name of an object", "'My_Claim'", "--pvc my-claim"),
    ("pytorchjob", ["--pvc", "a" * 254], "at most 253", "aaa", "--pvc aaa"),
    ("pytorchjob", ["--mount", "output"], "--mount takes an absolute directory", "'output'", "--mount /workspace"),
    ("pytorchjob", ["--mount", "/"], "--mount takes an absolute directory", "'/'", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/a/../b"], "--mount takes an absolute directory", "'/a/../b'", "--mount /workspace"),
    ("pytorchjob", ["--mount", "/a:b"], "--mount takes an absolute directory", "'/a:b'", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/tmp"], "a volume there would hide", "--mount /tmp", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/dev/shm"], "a volume there would hide", "/dev/shm", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/workspace/"], "a volume there would hide", "/workspace", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/opt"], "a volume there would hide", "--mount /opt", "--mount /workspace/output"),
    ("pytorchjob", ["--mount", "/usr/lib"], "a volume there would hide", "/usr/lib", "--mount /workspace/output"),
    ("pytorchjob", ["--node-selector", "spr"], "--node-selector takes the label", "'spr'", "node-type=spr"),
    ("pytorchjob", ["--node-selector", "a=b c"], "--node-selector takes the label", "'a=b c'", "node-type=spr"),
    ("pytorchjob", ["--node-selector", f"{LABEL_64}=a"], "takes the label", LABEL_64, "node-type=spr"),
    ("pytorchjob", ["--node-selector", "/a=b"], "takes the label", "'/a=b'", "node-type=spr"),
    ("pytorchjob", ["--node-selector", "a=b", "--node-selector", "a=c"], "two values", "a", "a=VALUE once"),
    ("pytorchjob", ["--toleration", "a=b:Never"], "--toleration takes a taint", "'a=b:Never'", "NoSchedule"),
    ("pytorchjob", ["--toleration", "=b"], "--toleration takes a taint", "'=b'", "NoSchedule"),
    ("pytorchjob", ["--toleration", ""], "--toleration takes a taint", "''", "NoSchedule"),
    ("pytorchjob", ["--queue", "My Queue"], "--queue takes the name of a LocalQueue", "'My Queue'", "--queue my-queue"),
    ("pytorchjob", ["--queue", "team..a"], "--queue takes the name of a LocalQueue", "'team..a'", "--queue team-a"),
    ("pytorchjob", ["--queue", "a" * 64], "--queue takes the name of a LocalQueue", "a" * 64, f"--queue {'a' * 63}"),
    ("pytorchjob", ["--env", "LOGLEVEL"], "--env takes a variable", "'LOGLEVEL'", "--env LOGLEVEL=INFO"),
    ("pytorchjob", ["--env=--"], "--env takes a variable", "'--'", "--env LOGLEVEL=INFO"),
    ("pytorchjob", ["--env", "1A=b"], "--env takes a variable", "'1A=b'", "--env LOGLEVEL=INFO"),
    ("pytorchjob", ["--env", "A=\udcff"], "no container can be given", "udcff", "--env A=VALUE"),
    ("pytorchjob", ["--env", "A=1", "--env", "A=2"], "--env gives one name two values", "A", "--env A=VALUE once"),
    ("pytorchjob", ["--env", "HF_TOKEN=hf_x"], "is read by everybody", "--env HF_TOKEN", "--token-secret hf-token"),
    ("pytorchjob", ["--token-secret", "Hf"], "--token-secret takes the name", "'Hf'", "--token-secret hf"),
    ("pytorchjob", ["--token-secret", "hf:"], "a Secret and a key in it", "'hf:'", "hf-token:HF_TOKEN"),
    ("pytorchjob", ["--token-secret", "hf:a/b"], "a Secret and a key in it", "'hf:a/b'", "hf-token:HF_TOKEN"),
    ("pytorchjob", ["--uid", "0"], "--uid takes a number from 1", "'0'", "--uid 2"),
    ("pytorchjob", ["--uid", "4294967295"], "--uid takes a number from 1", "'4294967295'", "--uid 2"),
    ("pytorchjob", ["--uid", "me"], "--uid takes a number from 1", "'me'", "--uid 2"),
    ("pytorchjob", ["--node-shape", "2"], "--node-shape takes NUMA nodes", "'2'", "--node-shape 2x56x2"),
    ("pytorchjob", ["--node-shape", "2x0"], "--node-shape takes NUMA nodes", "'2x0'", "--node-shape 2x56x2"),
    ("pytorchjob", ["--node-shape", "64x64x2"], "at most 4096 in all", "'64x64x2'", "--node-shape 2x56x2"),
    ("pytorchjob", ["--elastic", "4"], "--elastic takes the fewest and the most", "'4'", "--elastic 1:4"),
    ("pytorchjob", ["--elastic", "4:1"], "more workers at least than at most", "'4:1'", "--elastic 1:4"),
    ("pytorchjob", ["--elastic", "0:4"], "--elastic takes a number from 1", "'0'", "--elastic 2"),
    ("pytorchjob", ["--elastic", "5:8"], "fewer than --elastic asks for", "--workers 4", "--elastic 4:4"),
    ("pytorchjob", ["--elastic", "1:2"], "more than at most", "--workers 4", "--elastic 1:4"),
    ("pytorchjob", ["--max-restarts", "-1"], "--max-restarts takes a number from 0", "'-1'", "--max-restarts 2"),
    ("pytorchjob", ["--max-restarts", "1001"], "--max-restarts takes a number", "'1001'", "--max-restarts 2"),
    ("trainjob", ["--runtime", "Torch"], "--runtime takes the name of an object", "'Torch'", "--runtime torch"),
    ("runtime", ["--policy", "intel"], "--policy takes torch, or mpi", "'intel'", "--policy torch"),
    ("pvc", ["--name", "My_Claim"], "--name takes the name of an object", "'My_Claim'", "--name my-claim"),
    ("pvc", ["--size", "30"], "--size is less than 1Mi", "'30'", "--size 30Gi"),
    ("pvc", ["--size", "30k"], "--size is less than 1Mi", "'30k'", "--size 64Gi"),
    ("pvc", ["--size", "much"], "--size takes a number of bytes", "'much'", "--size 64Gi"),
    ("pvc", ["--storage-class", "NFS"], "--storage-class takes the name", "'NFS'", "--storage-class nfs"),
    ("pvc", ["--access", "RWX"], "--access takes ReadWriteMany", "'RWX'", "--access ReadWriteMany"),
]  # fmt: skip


def typed(kind: str, words: Sequence[str] = ()) -> dict[str, Any]:
    """Return what was typed, with an image and sizes where the kind needs them."""
    needed = {"pvc": (), "prefetch": ("--image", IMAGE)}.get(kind, ("--image", IMAGE, *SIZES))
    return vars(cli.make_parser().parse_args([kind, *needed, *words]))


def make(kind: str, *words: str) -> Job:
    return options.make_job(kind, options.read_values(kind, typed(kind, words)), ("qa",))


def claim(*words: str) -> Claim:
    return options.make_claim(options.read_values("pvc", typed("pvc", words)))


@pytest.mark.parametrize(("kind", "words", "fact", "value", "remedy"), MISTAKES)
def test_a_mistake_has_three_parts(kind: str, words: list[str], fact: str, value: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refused:
        claim(*words) if kind == "pvc" else make(kind, *words)

    first = f"{refused.value.fact}: {refused.value.value}"
    assert fact in first and value in first and remedy in refused.value.remedy


def test_every_option_has_a_mistake() -> None:
    wrong = {word for _, words, *_ in MISTAKES for word in words if word.startswith("--")}

    assert {each.name for each in OPTIONS} <= wrong


def test_a_name_stands_for_one_option() -> None:
    for kind in ALL:
        assert len({each.key for each in of_kind(kind)}) == len(of_kind(kind))
    assert {kind for each in OPTIONS for kind in each.kinds} == {*ALL}
    assert all({*each.needed} <= {*each.kinds} for each in OPTIONS)


@pytest.mark.parametrize(("kind", "option"), [(kind, each) for each in OPTIONS for kind in each.needed])
def test_what_a_kind_cannot_do_without_is_asked_for(kind: str, option: options.Option) -> None:
    with pytest.raises(Refusal) as refused:
        options.read_values(kind, {**typed(kind), option.key: None})

    assert refused.value.fact == f"{kind} needs {option.name}: {option.help}"
    assert (refused.value.value, refused.value.remedy) == ("nothing", f"{option.name} {option.metavar}")


@pytest.mark.parametrize("kind", PODS)
def test_what_is_not_typed_has_a_default(kind: str) -> None:
    pod = make(kind).pod

    assert (pod.claim, pod.mount, pod.uid, pod.shm) == ("transformers-pvc", "/workspace/output", 1000, None)
    assert (pod.selector, pod.tolerations, pod.variables, pod.token) == ({}, [], {}, None)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("pytorchjob", "name", "transformers-pytorchjob"), ("runtime", "name", "multinode"),
        ("pytorchjob", "workers", 4), ("prefetch", "workers", 1), ("pytorchjob", "elastic", (1, 4)),
        ("mpijob", "elastic", None), ("mpijob", "restarts", 10), ("trainjob", "restarts", 0),
        ("trainjob", "runtime", "torch-distributed"), ("mpijob", "runtime", ""), ("runtime", "policy", "torch"),
        ("pytorchjob", "nproc", None), ("runtime", "nproc", None), ("pytorchjob", "shape", None),
        ("pytorchjob", "namespace", None), ("runtime", "queue", None), ("pytorchjob", "words", ("qa",)),
    ],
)  # fmt: skip
def test_a_job_has_what_its_kind_has(kind: str, field: str, value: object) -> None:
    assert getattr(make(kind), field) == value


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--nproc", "2"], "nproc", 2), (["--nproc", "auto"], "nproc", None),
        (["--node-shape", "2x56x2"], "shape", Shape(2, 56, 2)), (["--node-shape", "2x4"], "shape", Shape(2, 4, 1)),
        (["--node-shape", "1x4096"], "shape", Shape(1, 4096, 1)),
        (["--elastic", "off"], "elastic", None), (["--elastic", "2:8"], "elastic", (2, 8)),
        (["--workers", "6"], "elastic", (1, 6)), (["--elastic", "4:4"], "elastic", (4, 4)),
        (["--max-restarts", "0"], "restarts", 0), (["--queue", "q"], "queue", "q"), (["--name", "qa"], "name", "qa"),
    ],
)  # fmt: skip
def test_what_is_typed_is_in_the_job(words: list[str], field: str, value: object) -> None:
    assert getattr(make(JOBS[0], *words), field) == value


def test_what_is_given_several_times_is_kept_in_its_order() -> None:
    words = ["--env", "B=1", "--env", "A=2", "--env", "B=1", "--toleration", "b", "--toleration", "a"]
    pod = make("pytorchjob", *words).pod

    assert [*pod.variables.items()] == [("B", "1"), ("A", "2")]  # twice the same is no mistake
    assert [each["key"] for each in pod.tolerations] == ["b", "a"]


@pytest.mark.parametrize(
    ("words", "sizes"), [([], ("1", "4Gi")), (["--cpu", "2"], ("2", "4Gi")), (["--memory", "8Gi"], ("1", "8Gi"))]
)
def test_what_only_fetches_has_small_sizes(words: list[str], sizes: tuple[str, str]) -> None:
    pod = make("prefetch", *words).pod

    assert (pod.cpu, pod.memory) == sizes


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Claim("transformers-pvc", None, "30Gi", None, "ReadWriteMany")),
        (
            ["--name", "a", "--namespace", "b", "--size", "1Mi", "--storage-class", "c", "--access", "ReadWriteOnce"],
            Claim("a", "b", "1Mi", "c", "ReadWriteOnce"),
        ),
    ],
)
def test_a_claim_is_what_was_typed(words: list[str], expected: Claim) -> None:
    assert claim(*words) == expected


@pytest.mark.parametrize(
    ("kind", "option"),
    [("pytorchjob", "--queue"), ("pytorchjob", "--pvc"), ("pvc", "--name"), ("pvc", "--storage-class")],
)
def test_the_name_of_an_object_may_have_dots(kind: str, option: str) -> None:
    """A claim is made under every name under which a job can mount it."""
    values = options.read_values(kind, typed(kind, [option, "team.1.a"]))

    assert values[option.removeprefix("--").replace("-", "_")] == "team.1.a"
