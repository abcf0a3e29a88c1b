"""Which launcher started this process: one row for each, in the order in which they are looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from multinode_image.errors import Refusal
from multinode_image.reading import first_set, parse_json, whole
from multinode_image.world import torchrun
from multinode_image.world.model import (
    ALONE,
    EVERY_NODE,
    MPI,
    MPIJOB_LAUNCHER,
    MPIJOB_WORKER,
    NO_LAUNCHER,
    SLURM,
    TORCHRUN,
    TORCHRUN_WORKER,
    Launcher,
    Names,
    NodeLauncher,
    Proof,
    RankLauncher,
    Scheduler,
    World,
    all_set,
)
from multinode_image.world.ranks import count_tasks, gave_pmi, name_job, read_node, read_rank

# Variables that Kubernetes sets in every pod of a namespace with a Service named `master`, `pet-master`, `pmi` or
# `multinode-ssh`: MASTER_PORT=tcp://10.0.0.1:80.
LINKS = ("MASTER_PORT", "PET_MASTER_PORT", "PMI_PORT", "MULTINODE_SSH_PORT")
# Where SageMaker says which hosts there are, also to images that are not its own.
SAGEMAKER = "/opt/ml/input/config/resourceconfig.json"
# The role of a pod in an MPIJob: mpirun starts ranks in the workers, from the launcher.
ROLE = "K_MPI_JOB_ROLE"
# What names a hostfile to Intel MPI, MPICH and Open MPI, in the order in which `launch` looks for one.
HOSTFILES = ("I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile")
SRUN = "srun --ntasks-per-node N"


def is_trainjob(environ: Mapping[str, str]) -> bool:
    """Return whether this is the launcher of a TrainJob, in which a hostfile is mounted, but which has no role.

    Hostfiles of people are somewhere else (kubeflow/trainer, pkg/runtime/framework/plugins/mpi).
    """
    return any(environ.get(name, "").startswith("/etc/mpi/") for name in HOSTFILES)


def has_master(environ: Mapping[str, str]) -> bool:
    """Return whether there is a rendezvous without elasticPolicy: Master and Workers, or Trainer v2."""
    return all_set("PET_MASTER_ADDR")(environ) or all_set("MASTER_ADDR", "PET_NNODES")(environ)


BY_MPIRUN = "start the ranks with mpirun, which gives each a rank and a size"
# What starts ranks, or has an allocation in which mpirun does. In this order their names count for ranks of mpirun: the
# innermost, and the surest name of a job first. PMI_JOBID is left over where mpirun runs in a step; the steps of a
# heterogeneous job of Slurm may have different numbers.
SCHEDULERS = (
    Scheduler(
        "PALS_",
        Names("PALS_RANKID", "", ("PALS_LOCAL_RANKID",), ("PALS_LOCAL_SIZE",), job=("PALS_APID",)),
        remedy=BY_MPIRUN,
    ),
    Scheduler("PMIX_", Names("PMIX_RANK", job=("PMIX_NAMESPACE",)), remedy=BY_MPIRUN),
    Scheduler("OMPI_", Names(job=("OMPI_MCA_ess_base_jobid",)), allocates=True, remedy=BY_MPIRUN),
    # The tasks that `flux run` has started, with a PMI or without (flux-environment(7)).
    Scheduler(
        "FLUX_",
        Names(
            "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ("FLUX_TASK_LOCAL_ID",), nodes=("FLUX_JOB_NNODES",), job=("FLUX_JOB_ID",)
        ),
        kind=MPI,
        set_master="flux run --env=MASTER_ADDR=node0 ...",
        allocates=True,
    ),
    # mpirun -pmi-port and prterun give a process neither a rank nor a size under a name that others have.
    Scheduler("PMI_", Names(job=("PMI_JOBID",)), marks={"PMI_PORT": ".*:[1-9][0-9]*"}, remedy=BY_MPIRUN),
    # A batch script has SLURM_PROCID as well as the tasks of a step, but no step of several.
    Scheduler(
        "SLURM_",
        Names(
            "SLURM_PROCID",
            "SLURM_STEP_NUM_TASKS",
            ("SLURM_LOCALID",),
            nodes=("SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
            job=("SLURM_HET_JOB_ID", "SLURM_JOB_ID.SLURM_STEP_ID"),
        ),
        kind=SLURM,
        count_here=count_tasks,
        set_master="MASTER_ADDR=node0 srun ...",
        allocates=True,
        remedy="start the ranks with srun, or with mpirun: srun IMAGE-COMMAND, or sbatch with --ntasks=1",
    ),
    Scheduler(
        "PBS_",
        Names("PBS_VNODENUM"),
        allocates=True,
        remedy=f"export MASTER_ADDR=$(head -n1 $PBS_NODEFILE) and {BY_MPIRUN}: mpirun -f $PBS_NODEFILE -n 2 -ppn 1 ...",
    ),
    Scheduler(
        "LSB_",
        hosts=("LSB_HOSTS", "LSB_MCPU_HOSTS"),
        allocates=True,
        remedy=f"export MASTER_ADDR=${{LSB_MCPU_HOSTS%% *}} and {BY_MPIRUN}; or with blaunch, and {EVERY_NODE}",
    ),
    Scheduler("NHOSTS", allocates=True),
    Scheduler("PRTE_", marks={"PRTE_LAUNCHED": "1"}, allocates=True, remedy=BY_MPIRUN),
    Scheduler("MV2_", remedy=BY_MPIRUN),
    Scheduler("HOROVOD_", Names("HOROVOD_RANK", "HOROVOD_SIZE")),
)


def start_by_mpirun(names: Names, set_master: str) -> RankLauncher:
    """Return an MPI whose ranks read, behind its own names, what the schedulers around them say.

    On not all nodes of an allocation mpirun may have put ranks.
    """
    around = [scheduler.names for scheduler in SCHEDULERS]
    names = names._replace(
        local_rank=(*names.local_rank, *(name for outer in around for name in outer.local_rank)),
        local_size=(*names.local_size, *(name for outer in around for name in outer.local_size)),
        job=(*names.job, *(name for outer in around for name in outer.job)),
    )
    return RankLauncher(MPI, names, tuple(name for outer in around for name in outer.nodes), set_master=set_master)


def start_by_mpirun_like(prefix: str, set_master: str) -> RankLauncher:
    """Return an MPI whose variables have one prefix: PREFIX_RANK, PREFIX_SIZE and so on."""
    names = Names(f"{prefix}_RANK", f"{prefix}_SIZE", (f"{prefix}_LOCAL_RANK",), (f"{prefix}_LOCAL_SIZE",))
    return start_by_mpirun(names, set_master)


# I_MPI_*, HYDRA_* and OMPI_MCA_* prove nothing: they are set where mpirun is started, too. MPI_LOCALRANKID comes before
# SLURM_LOCALID, which is left over from the batch step when hydra starts the ranks inside an allocation.
HYDRA = start_by_mpirun(
    Names(
        "PMI_RANK",
        "PMI_SIZE",
        ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
        ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        job=("I_MPI_HYDRA_UUID",),
    ),
    "mpirun -genv MASTER_ADDR node0",
)
MPIS = (
    HYDRA,
    start_by_mpirun_like("OMPI_COMM_WORLD", "mpirun -x MASTER_ADDR=node0"),
    start_by_mpirun_like("MV2_COMM_WORLD", "mpirun_rsh ... MASTER_ADDR=node0"),
)
# The tasks that schedulers have started by their own command. Flux may run in a step of Slurm, whose variables tasks of
# Flux had as well until 0.51 (flux-framework/flux-core#5203).
TASKS = tuple(
    RankLauncher(scheduler.kind, scheduler.names, count_here=scheduler.count_here, set_master=scheduler.set_master)
    for scheduler in SCHEDULERS
    if scheduler.kind
)
SLURM_TASK = next(launcher for launcher in TASKS if launcher.kind == SLURM)
# torchrun's workers. By hand, or as in Azure ML, the variables may lack some.
TORCHRUN_RANK = RankLauncher(
    TORCHRUN_WORKER,
    Names("RANK", "WORLD_SIZE", ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),
    count_here=torchrun.count_by_hand,
)
# A process on each node, where torchrun has to start the ranks.
SCHEDULER_NODE = NodeLauncher(TORCHRUN, read_node)
TORCHRUN_NODE = NodeLauncher(TORCHRUN, torchrun.read_rendezvous)
OPERATOR_NODE = TORCHRUN_NODE._replace(node_rank="RANK", nodes="WORLD_SIZE", hosts="MASTER_ADDR")


def prove_only(launcher: RankLauncher) -> RankLauncher:
    """Return an MPI that has started one process, which may start others itself.

    Slurm and Flux give the only task of a step the same variables, but do not say how many ranks this node has.
    """
    names = launcher.names

    def holds(environ: Mapping[str, str]) -> bool:
        if not all_set(names.rank, names.size)(environ) or launcher.proves(environ):
            return False
        is_task = any(whole(environ.get(task.names.size, "")) == 1 for task in TASKS)
        return not is_task or bool(first_set(environ, names.local_size))

    return launcher._replace(proof=Proof(f"{names.size} is 1", holds), started=False)


def read_single(environ: Mapping[str, str], launcher: NodeLauncher) -> World:
    """Return the world of one process, which may start ranks itself."""
    return World(launcher.kind, launcher.why, local_size=torchrun.read_count(environ))


# The order is the policy. What is set for one process only comes before what is set for a whole pod, because a rank
# inherits the variables of the pod it runs in: torchrun and mpirun are used inside pods and Slurm allocations, never
# the other way round. RANK alone proves nothing: PyTorchJob sets it to the number of the pod. A scheduler
# that starts ranks is a row of SCHEDULERS, one that starts a process on each node is a row here; each has a recorded
# environment and a row of tests/data/launchers.toml.
LAUNCHERS: tuple[Launcher, ...] = (
    TORCHRUN_RANK._replace(proof=Proof("TORCHELASTIC_RUN_ID is set", all_set("TORCHELASTIC_RUN_ID"))),
    SLURM_TASK._replace(proof=Proof(SLURM_TASK.why, lambda environ: SLURM_TASK.proves(environ) and gave_pmi(environ))),
    *MPIS,
    *TASKS,
    # Kubeflow: the pods of a PyTorchJob or a TrainJob, which start torchrun.
    TORCHRUN_NODE._replace(proof=Proof("PET_RDZV_ENDPOINT is set", all_set("PET_RDZV_ENDPOINT"))),
    TORCHRUN_NODE._replace(proof=Proof("a master and PET_NNODES are set", has_master)),
    # What somebody sets by hand has the names that an operator sets in a pod, so it is looked for after those.
    TORCHRUN_RANK._replace(
        proof=Proof(
            "RANK, LOCAL_RANK and MASTER_ADDR are set", all_set("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
        )
    ),
    OPERATOR_NODE._replace(proof=Proof("RANK, WORLD_SIZE and MASTER_ADDR are set", OPERATOR_NODE.proves)),
    # SageMaker (aws/sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md)
    SCHEDULER_NODE._replace(node_rank="SM_CURRENT_HOST", hosts="SM_HOSTS", job=("TRAINING_JOB_NAME",)),
    # Volcano, plugins env and svc: a list for each group of tasks (volcano-sh/volcano, pkg/controllers/job/plugins)
    SCHEDULER_NODE._replace(node_rank="VC_TASK_INDEX", hosts="VC_*_HOSTS", job=("VC_JOB_NAME",)),
    SCHEDULER_NODE._replace(node_rank="VK_TASK_INDEX", hosts="VC_*_HOSTS", job=("VC_JOB_NAME",)),
    # SkyPilot (docs.skypilot.co, running-jobs/distributed-jobs)
    SCHEDULER_NODE._replace(
        node_rank="SKYPILOT_NODE_RANK", nodes="SKYPILOT_NUM_NODES", hosts="SKYPILOT_NODE_IPS", job=("SKYPILOT_TASK_ID",)
    ),
    # dstack (dstackai/dstack, runner/internal/executor/executor.go; docs, reference/environment-variables)
    SCHEDULER_NODE._replace(
        node_rank="DSTACK_NODE_RANK", nodes="DSTACK_NODES_NUM", hosts="DSTACK_MASTER_NODE_IP", job=("DSTACK_RUN_ID",)
    ),
    # LeaderWorkerSet (kubernetes-sigs/lws)
    SCHEDULER_NODE._replace(node_rank="LWS_WORKER_INDEX", nodes="LWS_GROUP_SIZE", hosts="LWS_LEADER_ADDRESS"),
    # Instant clusters of RunPod (docs.runpod.io, instant-clusters/configuration), and names that scripts use
    SCHEDULER_NODE._replace(node_rank="NODE_RANK", nodes="NUM_NODES", hosts="MASTER_ADDR"),
    # A world of one that MPI has made may be left over by whatever started a shell, so it comes after all others.
    *map(prove_only, MPIS),
    # The role in an MPIJob is a variable of the pod; a rank in it has been found above.
    NodeLauncher(
        MPIJOB_LAUNCHER, read_single, proof=Proof(f"{ROLE} is launcher", lambda env: env.get(ROLE) == "launcher")
    ),
    NodeLauncher(MPIJOB_WORKER, read_single, proof=Proof(f"{ROLE} is worker", lambda env: env.get(ROLE) == "worker")),
    NodeLauncher(MPIJOB_LAUNCHER, read_single, proof=Proof("a hostfile in /etc/mpi is set", is_trainjob)),
    NodeLauncher(ALONE, read_single, proof=Proof(NO_LAUNCHER, lambda environ: True)),
)


def complete_variables(environ: Mapping[str, str], read: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables without those of Services, and with what two schedulers say in files; read: returns a text.

    PBS has a line for each rank, SageMaker a list in JSON.
    """
    variables = {name: value for name, value in environ.items() if name not in LINKS or "://" not in value}
    if variables.get("PBS_NODEFILE") and not variables.get("PBS_NUM_NODES"):
        text = read(variables["PBS_NODEFILE"])
        if text is not None:
            variables["PBS_NUM_NODES"] = str(len(set(text.split())))
    text = None if variables.get("SM_HOSTS") else read(SAGEMAKER)
    if text is not None:
        try:
            said = parse_json(text)
            hosts, here = said["hosts"], said["current_host"]
        except (ValueError, KeyError, TypeError):
            return variables
        variables.update(
            SM_HOSTS=",".join(map(str, hosts)) if isinstance(hosts, list) else "", SM_CURRENT_HOST=str(here)
        )
    return variables


def find_launcher(environ: Mapping[str, str]) -> Launcher:
    """Return the first launcher whose variables are there; the last one needs none."""
    return next(launcher for launcher in LAUNCHERS if launcher.proves(environ))


def detect(
    environ: Mapping[str, str],
    nproc: int | None = None,
    *,
    launcher: Launcher | None = None,
    typed: Mapping[str, str] | None = None,
    task: str = "",
) -> World:
    """Return the world of this process; raise Refusal where variables contradict each other, or --nproc a launcher.

    nproc: the number in --nproc; launcher: what started this process, if that is known; typed: what describes a typed
    torchrun, which has a world of its own; task: what is trained.
    """
    launcher = launcher or find_launcher(environ)
    if typed is None:
        world = read_world(environ, launcher, nproc)
    else:
        world = read_world(typed, find_launcher(typed), None)._replace(outer=launcher)
        environ = {**environ, **typed}
    if apart := torchrun.explain_loopback(environ, world):
        if typed is None:
            raise apart
        world = world._replace(notes=(apart.note,))  # all agents of a typed torchrun may be on this machine
    return name_job(world, environ, task)


def read_world(environ: Mapping[str, str], launcher: Launcher, nproc: int | None) -> World:
    """Return the world of a launcher, with the number in --nproc; raise Refusal as `detect`."""
    if nproc is None:
        return read_place(environ, launcher)
    if launcher.started:
        commands = "mpirun -n N -ppn N, torchrun --nproc_per_node N"
        remedy = f"give the number to the launcher instead: {SRUN if launcher.kind == SLURM else commands}"
        raise Refusal("--nproc has no meaning in a process that a launcher started", launcher.why, remedy)
    world = read_place({**environ, torchrun.NPROC: ""}, launcher)
    if world.rank is not None:  # of a world of one, which starts others
        return World(ALONE, launcher.why, local_size=nproc, started_alone=True)
    return world._replace(local_size=nproc)


def read_place(environ: Mapping[str, str], launcher: Launcher) -> World:
    """Return the world that a launcher's variables describe; raise Refusal where they contradict each other."""
    if isinstance(launcher, NodeLauncher):
        return launcher.read(environ, launcher)
    if launcher.started:
        check_places(environ, launcher.kind)
    return read_rank(environ, launcher)


def check_places(environ: Mapping[str, str], kind: str) -> None:
    """Raise Refusal if variables of several launchers of a kind, such as another MPI, give this process two places."""
    launchers = [
        launcher
        for launcher in LAUNCHERS
        if isinstance(launcher, RankLauncher) and launcher.started and launcher.kind == kind
    ]
    places = {
        launcher.names[:2]: [environ.get(name, "") for name in launcher.names[:2]]
        for launcher in launchers
        if launcher.proves(environ)
    }
    if len({tuple(map(whole, place)) for place in places.values()}) > 1:
        value = ", ".join(f"{rank}={place[0]} {size}={place[1]}" for (rank, size), place in places.items())
        ways = ", or ".join(f"unset {rank} {size}" for rank, size in places)
        remedy = f"unset the pair that an outer launcher has left: {ways}"
        raise Refusal("two launchers give this process different places", value, remedy)
