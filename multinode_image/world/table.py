"""Which launcher started this process: one row for each, in the order in which they are looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from multinode_image.documents import parse_json
from multinode_image.errors import Refusal
from multinode_image.numbers import first_set, whole
from multinode_image.world import slurm, torchrun
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
    Scheduler,
    World,
    all_set,
)
from multinode_image.world.ranks import name_job, read_node, read_rank

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


# In whose allocations mpirun starts ranks, and what starts ranks by names that no row below reads.
BY_MPIRUN = "start the ranks with mpirun, which gives each a rank and a size"
FLUX = Scheduler(
    "FLUX_",
    sizes=("FLUX_JOB_SIZE",),
    ranks=("FLUX_TASK_RANK",),
    nodes=("FLUX_JOB_NNODES",),
    local_rank=("FLUX_TASK_LOCAL_ID",),
    job=("FLUX_JOB_ID",),
    allocates=True,
)
PALS = Scheduler(
    "PALS_",
    ranks=("PALS_RANKID",),
    local_rank=("PALS_LOCAL_RANKID",),
    local_size=("PALS_LOCAL_SIZE",),
    job=("PALS_APID",),
    remedy=BY_MPIRUN,
)
SCHEDULERS = (
    FLUX,
    PALS,
    Scheduler(
        "SLURM_",
        allocates=True,
        remedy="start the ranks with srun, or with mpirun: srun IMAGE-COMMAND, or sbatch with --ntasks=1",
    ),
    Scheduler(
        "PBS_",
        ranks=("PBS_VNODENUM",),
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
    # mpirun -pmi-port and prterun give a process neither a rank nor a size under a name that others have.
    Scheduler("PMI_", marks={"PMI_PORT": ".*:[1-9][0-9]*"}, remedy=BY_MPIRUN),
    Scheduler("PMIX_", ranks=("PMIX_RANK",), remedy=BY_MPIRUN),
    Scheduler("PRTE_", marks={"PRTE_LAUNCHED": "1"}, allocates=True, remedy=BY_MPIRUN),
    Scheduler("OMPI_", allocates=True, remedy=BY_MPIRUN),
    Scheduler("MV2_", remedy=BY_MPIRUN),
    Scheduler("HOROVOD_", sizes=("HOROVOD_SIZE",), ranks=("HOROVOD_RANK",)),
)


# torchrun's workers. By hand, or as in Azure ML, the variables may lack some.
TORCHRUN_RANK = Launcher(
    TORCHRUN_WORKER,
    read_rank,
    rank="RANK",
    size="WORLD_SIZE",
    local_rank=("LOCAL_RANK",),
    local_size=("LOCAL_WORLD_SIZE", "LOCAL_SIZE"),
    count_here=torchrun.count_by_hand,
    loopback=True,
)
# The tasks of a step that srun has started; a batch script has SLURM_PROCID, too, but no step of several. The steps of
# a heterogeneous job may have different numbers.
SLURM_JOB = ("SLURM_HET_JOB_ID", "SLURM_JOB_ID.SLURM_STEP_ID")
SLURM_TASK = Launcher(
    SLURM,
    read_rank,
    rank="SLURM_PROCID",
    size="SLURM_STEP_NUM_TASKS",
    local_rank=("SLURM_LOCALID",),
    nodes=("SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
    count_here=slurm.count_tasks,
    job=SLURM_JOB,
    remedy="MASTER_ADDR=node0 srun ...",
)
# Ranks that mpirun has started. What only those of one mpirun share, the surest first: PMI_JOBID is left over where
# mpirun runs in a step. On not all nodes of an allocation mpirun may have put ranks.
MPI_RANK = Launcher(
    MPI,
    read_rank,
    allocation=(*FLUX.nodes, *SLURM_TASK.nodes),
    job=(
        "I_MPI_HYDRA_UUID",
        *PALS.job,
        "PMIX_NAMESPACE",
        "OMPI_MCA_ess_base_jobid",
        *FLUX.job,
        "PMI_JOBID",
        *SLURM_JOB,
    ),
)
# A process on each node, where torchrun has to start the ranks.
SCHEDULER_NODE = Launcher(TORCHRUN, read_node, started=False)
TORCHRUN_NODE = Launcher(TORCHRUN, torchrun.read_rendezvous, started=False)
# One process, which may start ranks itself.
SINGLE = Launcher(ALONE, lambda env, row: World(row.kind, row.why, local_size=torchrun.read_count(env)), started=False)


def name_like(prefix: str, remedy: str) -> Launcher:
    """Return the row of a launcher whose variables have one prefix: PREFIX_RANK, PREFIX_SIZE and so on."""
    return MPI_RANK._replace(
        rank=f"{prefix}_RANK",
        size=f"{prefix}_SIZE",
        local_rank=(f"{prefix}_LOCAL_RANK",),
        local_size=(f"{prefix}_LOCAL_SIZE",),
        remedy=remedy,
    )


# I_MPI_*, HYDRA_* and OMPI_MCA_* prove nothing: they are set where mpirun is started, too. MPI_LOCALRANKID comes first
# because SLURM_LOCALID is left over from the batch step when hydra starts the ranks inside an allocation.
HYDRA = MPI_RANK._replace(
    rank="PMI_RANK",
    size="PMI_SIZE",
    local_rank=("MPI_LOCALRANKID", "PMI_LOCAL_RANK", *PALS.local_rank, *FLUX.local_rank, *SLURM_TASK.local_rank),
    local_size=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", *PALS.local_size),
    remedy="mpirun -genv MASTER_ADDR node0",
)
# The tasks that `flux run` has started, with a PMI or without (flux-environment(7)).
FLUX_TASK = MPI_RANK._replace(
    rank="FLUX_TASK_RANK",
    size="FLUX_JOB_SIZE",
    local_rank=FLUX.local_rank,
    remedy="flux run --env=MASTER_ADDR=node0 ...",
)
MPIS = (
    HYDRA,
    name_like("OMPI_COMM_WORLD", "mpirun -x MASTER_ADDR=node0"),
    name_like("MV2_COMM_WORLD", "mpirun_rsh ... MASTER_ADDR=node0"),
)


def make_only_rank(launcher: Launcher) -> Launcher:
    """Return an MPI that has started one process, which may start others itself.

    Slurm and Flux give the only task of a step the same variables, but do not say how many ranks this node has.
    """

    def prove(environ: Mapping[str, str]) -> bool:
        if not all_set(launcher.rank, launcher.size)(environ) or launcher.has_several(environ):
            return False
        is_task = any(whole(environ.get(name, "")) == 1 for name in (SLURM_TASK.size, *FLUX.sizes))
        return not is_task or bool(first_set(environ, launcher.local_size))

    return launcher._replace(proof=prove, fact=f"{launcher.size} is 1", started=False)


# The order is the policy. What is set for one process only comes before what is set for a whole pod, because a rank
# inherits the variables of the pod it runs in: torchrun and mpirun are used inside pods and Slurm allocations, never
# the other way round. RANK alone proves nothing: PyTorchJob sets it to the number of the pod. A scheduler with
# variables of its own is a row here, a recorded environment and a row of tests/data/launchers.toml.
LAUNCHERS = (
    TORCHRUN_RANK._replace(proof=all_set("TORCHELASTIC_RUN_ID"), fact="TORCHELASTIC_RUN_ID is set"),
    SLURM_TASK._replace(proof=lambda environ: SLURM_TASK.proves(environ) and slurm.gave_pmi(environ)),
    *MPIS,
    SLURM_TASK,
    FLUX_TASK,
    # Kubeflow: the pods of a PyTorchJob or a TrainJob, which start torchrun.
    TORCHRUN_NODE._replace(proof=all_set("PET_RDZV_ENDPOINT"), fact="PET_RDZV_ENDPOINT is set"),
    TORCHRUN_NODE._replace(proof=has_master, fact="a master and PET_NNODES are set"),
    # What somebody sets by hand has the names that an operator sets in a pod, so it is looked for after those.
    TORCHRUN_RANK._replace(
        proof=all_set("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"),
        fact="RANK, LOCAL_RANK and MASTER_ADDR are set",
    ),
    TORCHRUN_NODE._replace(
        fact="RANK, WORLD_SIZE and MASTER_ADDR are set", rank="RANK", size="WORLD_SIZE", hosts="MASTER_ADDR"
    ),
    # SageMaker (aws/sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md)
    SCHEDULER_NODE._replace(rank="SM_CURRENT_HOST", hosts="SM_HOSTS", job=("TRAINING_JOB_NAME",)),
    # Volcano, plugins env and svc: a list for each group of tasks (volcano-sh/volcano, pkg/controllers/job/plugins)
    SCHEDULER_NODE._replace(rank="VC_TASK_INDEX", hosts="VC_*_HOSTS", job=("VC_JOB_NAME",)),
    SCHEDULER_NODE._replace(rank="VK_TASK_INDEX", hosts="VC_*_HOSTS", job=("VC_JOB_NAME",)),
    # SkyPilot (docs.skypilot.co, running-jobs/distributed-jobs)
    SCHEDULER_NODE._replace(
        rank="SKYPILOT_NODE_RANK", size="SKYPILOT_NUM_NODES", hosts="SKYPILOT_NODE_IPS", job=("SKYPILOT_TASK_ID",)
    ),
    # dstack (dstackai/dstack, runner/internal/executor/executor.go; docs, reference/environment-variables)
    SCHEDULER_NODE._replace(
        rank="DSTACK_NODE_RANK", size="DSTACK_NODES_NUM", hosts="DSTACK_MASTER_NODE_IP", job=("DSTACK_RUN_ID",)
    ),
    # LeaderWorkerSet (kubernetes-sigs/lws)
    SCHEDULER_NODE._replace(rank="LWS_WORKER_INDEX", size="LWS_GROUP_SIZE", hosts="LWS_LEADER_ADDRESS"),
    # Instant clusters of RunPod (docs.runpod.io, instant-clusters/configuration), and names that scripts use
    SCHEDULER_NODE._replace(rank="NODE_RANK", size="NUM_NODES", hosts="MASTER_ADDR"),
    # A world of one that MPI has made may be left over by whatever started a shell, so it comes after all others.
    *map(make_only_rank, MPIS),
    # The role in an MPIJob is a variable of the pod; a rank in it has been found above.
    SINGLE._replace(kind=MPIJOB_LAUNCHER, fact=f"{ROLE} is launcher", proof=lambda env: env.get(ROLE) == "launcher"),
    SINGLE._replace(kind=MPIJOB_WORKER, fact=f"{ROLE} is worker", proof=lambda env: env.get(ROLE) == "worker"),
    SINGLE._replace(kind=MPIJOB_LAUNCHER, fact="a hostfile in /etc/mpi is set", proof=is_trainjob),
    SINGLE._replace(fact=NO_LAUNCHER, proof=lambda environ: True),
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
        check_places(environ, launcher)
        return launcher.read(environ, launcher)
    if launcher.started:
        commands = "mpirun -n N -ppn N, torchrun --nproc_per_node N"
        remedy = f"give the number to the launcher instead: {SRUN if launcher.kind == SLURM else commands}"
        raise Refusal("--nproc has no meaning in a process that a launcher started", launcher.why, remedy)
    world = launcher.read({**environ, torchrun.NPROC: ""}, launcher)
    if world.rank is not None:  # of a world of one, which starts others
        return World(ALONE, launcher.why, local_size=nproc, started_alone=True)
    return world._replace(local_size=nproc)


def check_places(environ: Mapping[str, str], launcher: Launcher) -> None:
    """Raise Refusal if variables of the same kind of launcher, such as another MPI, give this process another place."""
    others = [each for each in LAUNCHERS if each.started and each.kind == launcher.kind and each.proves(environ)]
    places = {each.size: (each.rank, environ.get(each.rank, ""), environ.get(each.size, "")) for each in others}
    if launcher.started and len({(whole(rank), whole(size)) for _, rank, size in places.values()}) > 1:
        value = ", ".join(f"{name}={rank} {count}={size}" for count, (name, rank, size) in places.items())
        ways = ", or ".join(f"unset {name} {count}" for count, (name, _, _) in places.items())
        remedy = f"unset the pair that an outer launcher has left: {ways}"
        raise Refusal("two launchers give this process different places", value, remedy)
