"""The real oneCCL stack: torch 2.4.0, IPEX and the bindings train on one node and on two.

By the guide's own commands on two nodes they do in test_guide.py.

MULTINODE_CCL names the directory with the program that makes the wheels; without it these tests are skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, two_pods
from tests.cluster.test_guide import MPIRUN_ON_ONE_NODE, SETVARS, ranks, run_job, world
from tests.support import real_ccl
from tests.support.harness import IMAGES, Done, built, remove_images, run
from tests.support.machines import find_bf16

SMOKE = ("smoke", "--bf16")
# The same, where the guide's commands have run_qa.py; the small script in the place of that one only forms the group.
SCRIPT = "/opt/multinode/smoke.py"
TYPE = find_bf16().removeprefix("torch.")
IPEX = ["--use_ipex", "--bf16"]

# A rank of a script that ends right after its work, without destroying the group: its backend's thread wants Python's
# lock to drop a tensor. FAILS is a rank 0 that fails while the other waits for it in a collective.
GROUP = """
import sys, time
import torch, torch.distributed as dist
import oneccl_bindings_for_pytorch
dist.init_process_group("ccl")
tensor = torch.ones(300000)
dist.all_reduce(tensor)
"""
RETURNS = f"""{GROUP}
sys.setswitchinterval(1000)
dist.all_reduce(torch.ones(300000), async_op=True)
until = time.perf_counter() + 1
while time.perf_counter() < until:
    pass
"""
FAILS = f"""{GROUP}
if dist.get_rank() == 0:
    raise ValueError("a mistake of the script")
dist.all_reduce(tensor)
"""


@pytest.fixture(scope="module")
def wheelhouse() -> Path:
    return real_ccl.wheelhouse()


@pytest.fixture(scope="module")
def pods(wheelhouse: Path, ccl_image: str, keys: Path) -> Iterator[Cluster]:
    """Bring up two containers."""
    with two_pods(f"multinode{os.getpid()}ccl", ccl_image, {keys / "0600": "/etc/multinode/ssh"}) as cluster:
        yield cluster


def passed(done: Done, size: int, dtype: str = TYPE) -> bool:
    """Say whether smoke trained with ccl on so many ranks."""
    line = rf"(?m)^smoke: passed: world_size={size} backend=ccl dtype={dtype} "
    return done.code == 0 and len(re.findall(line, done.text)) == 1


@pytest.mark.slow  # the group forms so in the next test, and two containers train in the one after it
def test_two_ranks_in_one_container_without_a_network(wheelhouse: Path, ccl_image: str) -> None:
    assert passed(run(ccl_image, "--nproc", "2", *SMOKE), 2)


def end(image: str, place: Path, script: str) -> Done:
    """Run a script on two ranks, past the entrypoint."""
    (place / "script.py").write_text(script)
    options = ("--volume", f"{place}:/script:ro", "--entrypoint", "tini")
    return run(image, "--", "torchrun", "--nproc-per-node", "2", "/script/script.py", options=options)


@pytest.mark.slow
def test_a_rank_0_that_fails_ends_the_job(wheelhouse: Path, ccl_image: str, module_path: Path) -> None:
    """Its group serves the keys of all ranks, and must not wait until they have left."""
    done = end(ccl_image, module_path, FAILS)

    assert done.code == 1
    assert "ValueError: a mistake of the script" in done.err


def test_torchrun_on_two_nodes(pods: Cluster) -> None:
    done = pods.both(*SMOKE, environ=[pods.elastic] * 2)

    assert [end.code for end in done] == [0, 0]
    assert passed(Done(0, done[0].text + done[1].text, ""), 2)


@pytest.mark.slow  # two nodes train above; past the entrypoint ranks are started in test_guide.py
def test_the_guides_mpirun_trains_past_the_entrypoint(pods: Cluster) -> None:
    """As in `kubectl exec`: the image's own environment has to do, and the end has to be a good one."""
    variables = "export CCL_WORKER_COUNT=1\nexport MASTER_ADDR=127.0.0.1\n"
    mpirun = f"mpirun -n 2 -genv OMP_NUM_THREADS=1 python3 {SCRIPT} {' '.join(IPEX)}"

    assert passed(pods.nodes[0].shell(SETVARS + variables + mpirun, seconds=300), 2, TYPE)


@pytest.mark.slow
@pytest.mark.parametrize("entrypoint", [True, False], ids=["by the entrypoint", "past it"])
def test_the_guides_mpirun_on_one_node(pods: Cluster, entrypoint: bool) -> None:
    node = pods.nodes[0]

    done = node.run("bash", "-c", MPIRUN_ON_ONE_NODE) if entrypoint else node.shell(MPIRUN_ON_ONE_NODE)

    assert done.code == 0
    assert world(ranks(done)) == [(0, 2, "ccl"), (1, 2, "ccl")]


@pytest.mark.slow
def test_the_script_of_a_pytorchjob_may_return_without_destroying_its_group(pods: Cluster) -> None:
    run_job(pods, ["/bin/bash", "-c", f"echo '{RETURNS}' > /tmp/script.py; torchrun /tmp/script.py"])


@pytest.mark.slow
def test_the_last_release_that_knew_ccl(engine: None, wheelhouse: Path) -> None:
    release = ("--transformers", "4.46.3", "--base", "debian", "--examples", "none")
    tag = f"{IMAGES}:real-ccl-4.46.3"
    image = str(built(*real_ccl.OPTIONS, *release, "--wheelhouse", str(wheelhouse), "--tag", tag)["image"])
    try:
        assert passed(run(image, "--nproc", "2", *SMOKE), 2)
    finally:
        remove_images([tag])
