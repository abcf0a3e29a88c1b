"""Training under a real Slurm: which world each way to start ranks makes, and how jobs keep apart and end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import packages, slurm
from tests.cluster.nodes import KILL_A_RANK, MEET, PLAIN, TRAINS, UNTIL_CLEAN, places, worlds
from tests.cluster.slurm import SHARED, Slurm
from tests.support.harness import Done

ENDLESS = "multinode smoke --max_steps 1000000"
RANK = f"multinode {MEET}"
TORCHRUN = f"torchrun --nnodes 2 --nproc_per_node 2 --rdzv_backend c10d --rdzv_endpoint node0:29400 {MEET}"
ARBITRARY = f"printf 'node1\\nnode0\\n' > {SHARED}/hosts; SLURM_HOSTFILE={SHARED}/hosts srun -n2 -m arbitrary"
ONE_EACH = ("node0 0/1", "node1 0/1")
TWO_EACH = ("node0 0/2", "node0 1/2", "node1 0/2", "node1 1/2")
UNEVEN = ("node0 0/2", "node0 1/2", "node1 0/1")


@dataclass(frozen=True)
class Form:
    """A way to start ranks: the host, the local rank and the local size of each that shall meet."""

    name: str
    script: str
    ranks: tuple[str, ...]
    options: str | None = None  # of sbatch; None: the script is typed at the controller
    slow: bool = False


ENDS = Path(__file__).with_name("ends.py").read_text()
SPREAD = "-N2 --ntasks-per-node=1"
FORMS = (
    Form("one on each node", f"srun {SPREAD} {RANK}", ONE_EACH),
    Form("two on each node", f"srun -N2 -n4 {RANK}", TWO_EACH, slow=True),
    Form("uneven", f"srun -N2 -n3 {RANK}", UNEVEN, slow=True),
    Form("one", f"srun -n1 {RANK}", ONE_EACH[:1], slow=True),
    Form("one with two of its own", f"srun -n1 -c2 multinode --nproc 2 {MEET}", TWO_EACH[:2], slow=True),
    Form("one of two nodes", f"salloc -N2 srun -N1 -n1 {RANK}", ONE_EACH[:1], slow=True),
    Form("pmi2", f"srun --mpi=pmi2 {SPREAD} {RANK}", ONE_EACH),
    Form("pmi2, uneven", f"srun --mpi=pmi2 -N2 -n3 {RANK}", UNEVEN, slow=True),
    Form("pmi2, one with two", f"srun --mpi=pmi2 -n1 -c2 multinode --nproc 2 {MEET}", TWO_EACH[:2], slow=True),
    Form("pmix", f"srun --mpi=pmix {SPREAD} {RANK}", ONE_EACH, slow=True),
    Form("arbitrary order", f"export MASTER_ADDR=node1; {ARBITRARY} {RANK}", ONE_EACH[::-1], slow=True),
    Form("master and port", f"export MASTER_ADDR=node0 MASTER_PORT=12345; srun {SPREAD} {RANK}", ONE_EACH, slow=True),
    Form("srun in a batch script", f"srun {RANK}", ONE_EACH, SPREAD, slow=True),
    Form("torchrun in a batch script", f"srun {TORCHRUN}", TWO_EACH, SPREAD, slow=True),
    Form("mpirun in a batch script", f"mpirun {RANK}", ONE_EACH, SPREAD),
    Form("mpirun, two on each node", f"mpirun {RANK}", TWO_EACH, "-N2 --ntasks-per-node=2", slow=True),
    Form("mpirun in a batch script of one node", f"mpirun -n 2 {RANK}", TWO_EACH[:2], "-N1 -n2", slow=True),
)


@pytest.fixture(scope="module")
def slurm_image(image: str, module_path: Path, module_tag: Callable[[str], str]) -> str:
    """Put Slurm onto the default image."""
    tag = module_tag("slurm")
    slurm.build_image(image, tag, packages.choose_packages(*slurm.PACKAGES), module_path)
    return tag


@pytest.fixture(scope="module")
def both_up(slurm_image: str) -> Iterator[Slurm]:
    """Bring the controller and the two nodes up."""
    with slurm.up(slurm_image, f"multinode-slurm-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture
def cluster(both_up: Slurm) -> Iterator[Slurm]:
    """Lend the cluster, and end what a test leaves."""
    yield both_up
    both_up.clear()


def jobs(text: str) -> list[list[str]]:
    """Read whose ranks met: the numbers of the jobs that are in each world, which should be one."""
    return [sorted({rank["job"] for rank in world}) for world in worlds(text)]


@pytest.mark.parametrize(
    "form", [pytest.param(form, id=form.name, marks=[pytest.mark.slow] * form.slow) for form in FORMS]
)
def test_the_ranks_meet(cluster: Slurm, form: Form) -> None:
    done = cluster.run(form.script) if form.options is None else cluster.batch(form.options, form.script)

    assert done.code == 0
    assert tuple(places(done.out)) == form.ranks


@pytest.mark.slow  # a row of recorded environments
def test_a_training_in_the_batch_script_itself_is_refused(cluster: Slurm) -> None:
    done = cluster.batch(SPREAD, "multinode smoke")

    assert done.code == 2
    assert "meant to be one of many" in done.out
    assert "srun" in done.out


@pytest.mark.slow
def test_a_training_in_the_shell_of_salloc_is_refused(cluster: Slurm) -> None:
    """The shell is a step of its own, on the first node, and wants a terminal."""
    typed = "echo 'multinode smoke; exit $?' | script --quiet --return --command 'salloc -N2 -n2' /dev/null"

    done = cluster.run(f"export SHELL=/bin/bash; {typed}")

    assert done.code == 2
    assert "meant to be one of many" in done.out


@pytest.mark.slow  # a row of recorded environments
def test_every_rank_refuses_an_order_that_does_not_say_where_rank_0_is(cluster: Slurm) -> None:
    done = cluster.run(f"{ARBITRARY} {RANK}")

    assert done.code == 2
    assert done.err.count("MASTER_ADDR is not set") == 2


def test_two_jobs_on_the_same_nodes_stay_two(cluster: Slurm) -> None:
    """The second rank of the first job comes when all of the second job has been and gone."""
    late = f"[ $SLURM_PROCID = 0 ] || until [ -e {SHARED}/go ]; do sleep 0.1; done; exec {RANK}"
    first = cluster.start(f"srun {SPREAD} bash -c '{late}'")
    assert first.said("rank 0 of 2")

    second = cluster.run(f"srun {SPREAD} {RANK}")
    cluster.run(f"touch {SHARED}/go")

    ended = first.finish()
    assert (second.code, ended.code) == (0, 0)
    ((one,),), ((other,),) = jobs(ended.out), jobs(second.out)
    assert one != other


@pytest.mark.slow
def test_the_jobs_of_an_array_stay_apart(cluster: Slurm) -> None:
    options = f"--array=0-3 {SPREAD} --oversubscribe"

    done = cluster.batch(options, f"srun --oversubscribe {RANK}", seconds=120)

    ids = [job for (job,) in jobs(done.out)]
    assert len(ids) == len({*ids}) == 4


@pytest.mark.slow
def test_a_killed_rank_ends_the_step(cluster: Slurm) -> None:
    step = cluster.start(f"srun {SPREAD} {ENDLESS}")
    assert step.said(TRAINS)

    assert cluster.on_node("node1", KILL_A_RANK).code == 0

    assert step.finish(30).code == 137
    assert_clean(cluster)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "when"), [("exception", "after"), ("exit", "before"), ("kill", "in"), ("wait", "in")])
def test_a_step_of_which_one_task_has_failed_has_failed_in_time(cluster: Slurm, how: str, when: str) -> None:
    """As docs/slurm.md types it: Slurm itself would let the other task wait."""
    for node in slurm.NODES:
        assert cluster.on_node(node, f"cat > /tmp/ends.py <<'END'\n{ENDS}\nEND").code == 0

    step = cluster.start(f"cd /tmp; srun --kill-on-bad-exit=1 {SPREAD} multinode ends.py {how} {when}")
    assert step.said("rank 1 is there")
    if how == "wait":
        assert cluster.run("scancel --signal=TERM $(squeue --noheader --format=%A).0").code == 0

    done = step.finish(30)
    assert done.code
    assert "trained as one job" not in done.text or "had not ended" in done.text
    assert_clean(cluster)


@pytest.mark.slow
def test_a_killed_training_goes_on(cluster: Slurm, shared: Path) -> None:
    script = (shared / "train.py").read_text()
    assert cluster.run(f"cat > {SHARED}/train.py <<'END'\n{script}\nEND").code == 0
    step = f"srun --kill-on-bad-exit=1 {SPREAD} multinode {' '.join(PLAIN)} {SHARED}/run"
    assert "rank 0 begins at step 0" in cluster.run(f"DIE_AT=5 {step}").text

    done = cluster.run(step)

    assert done.code == 0
    assert [f"rank {rank} begins at step 4" in done.text for rank in (0, 1)] == [True, True]


@pytest.mark.slow
def test_scancel_ends_the_job(cluster: Slurm) -> None:
    step = cluster.start(f"srun {SPREAD} {ENDLESS}")
    assert step.said(TRAINS)

    assert cluster.run("scancel $(squeue --noheader --format=%A)").code == 0

    assert step.finish(30).code == 143
    assert_clean(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["none", "affinity"])
def test_threads_are_those_that_slurm_gave(slurm_image: str, task: str) -> None:
    with slurm.up(slurm_image, f"multinode-slurm-{task}-{os.getpid()}", task) as cluster:
        done = cluster.run(f"srun {SPREAD} --cpus-per-task=1 {RANK}")

    assert done.code == 0
    assert [rank["threads"] for rank in worlds(done.out)[0]] == ["1", "1"]


def assert_clean(cluster: Slurm) -> None:
    """Check that nothing of a job is left on the nodes."""
    left: list[Done] = [cluster.on_node(node, UNTIL_CLEAN) for node in slurm.NODES]
    assert [end.code for end in left] == [0, 0]
