"""What `--explain` says in recorded environments: the cases, and how their golden data are made.

The container around a case is a fake file system, so that the result is the same on every machine. One case of each
kind stands whole in `common.json`: those of LIKE. Each other case has what is different from that one, null for what it
lacks. Recorded environments are in `recorded.json`, chosen cases in `chosen.json`, and in `drawn.json` those that are
put together at random, in which rules meet that nobody thought of together. So a new case changes one file, a
variable for each rank another one, and a rule that decides in many cases four. The words of `--explain` are in
`text.json`, for a few cases that together have nearly all of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import pwd
import socket
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from pyfakefs.fake_filesystem import FakeFilesystem, set_uid
from pyfakefs.fake_filesystem_unittest import Patcher

from multinode_image.__main__ import main
from multinode_image.decide import decide as make_plan
from multinode_image.decide import look_ahead
from multinode_image.explain import plan_as_json
from multinode_image.hooks.ends.ranks import place_ranks
from multinode_image.machine.files import read_text
from multinode_image.reading import read_cpus
from tests.golden import data
from tests.support import torchrun
from tests.support.launchers import left_by, names
from tests.support.machines import Box, cpuset, docker, nested, pod

# Of each kind of start the case with which all others are compared.
LIKE = {"command": "alone-command", "launch": "recorded-mpijob-launcher-open", "training": "alone-task"}

ROOT, SITE, EXAMPLES = "/opt/multinode", "/usr/local/lib/python3.11/dist-packages", "/workspace/transformers"
GLOO = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "python": "3.11", "backend": "gloo"}
CCL = {"torch": "2.4.0+cpu", "transformers": "4.46.0", "python": "3.11", "backend": "ccl"}
PACKAGES = ("datasets-4.0.0", "evaluate-0.4.5", "scikit_learn-1.7.0", "seqeval-1.2.2", "nltk-3.9", "rouge_score-0.1.2")
SCRIPTS = {
    "question-answering/run_qa.py": "",
    "question-answering/run_qa_no_trainer.py": "",
    "text-classification/run_glue.py": "",
    "audio-classification/run_audio_classification.py": "",
}
# The image's own variables.
IMAGE = {
    "ACCELERATE_USE_CPU": "1",
    "HF_HOME": "/workspace/.cache/huggingface",
    "HOME": "/home/multinode",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/bin:/bin",
}
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
    "/usr/local/lib/libiomp5.so",
    "/usr/local/lib/libtcp-fi.so",
    "/usr/lib/x86_64-linux-gnu/libnss_wrapper.so",
)
# An image for arm64: without Intel's parts.
ARM64_LIBRARIES = (
    "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4",
    "/usr/lib/aarch64-linux-gnu/libnss_wrapper.so",
    "/usr/local/bin/mpichversion",
)
PROGRAMS = (
    "/usr/local/bin/mpiexec.hydra", "/usr/local/bin/torchrun", "/usr/bin/python3", "/usr/bin/true", "/usr/bin/bash",
    "/bin/bash", "/usr/local/bin/mpirun", "/usr/local/bin/accelerate", f"{ROOT}/rank",
)  # fmt: skip
DIRECTORIES = ("/home/multinode", "/workspace/output", "/workspace/.cache/huggingface", "/tmp", SITE)
ETC = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nmultinode:x:1000:0:multinode:/home/multinode:/bin/bash\n",
    "/etc/group": "root:x:0:\n",
    "/etc/mpi/hostfile": "192.0.2.7 slots=2\n192.0.2.8 slots=2\n",
}
PROC = {
    "/proc/meminfo": "MemTotal: 263000000 kB\n",
    "/proc/cpuinfo": "processor: 0\nflags: fpu avx2 avx512f amx_bf16\n",
    "/proc/self/mountinfo": "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /workspace/output rw - ext4 /dev/sda rw\n",
}
PARENT, ONLINE = 7, "/sys/devices/system/cpu/online"
ADDRESSES = {"job-master-0": "172.17.0.9", "node0": "192.0.2.5"}
# Two interfaces: eth0 with the default route, and a bridge of an engine.
INTERFACES = (("eth0", "192.0.2.2"), ("docker0", "172.17.0.1"))

LAPTOP, SERVER, HOST = Box(1, 4), Box(2, 6, 2), Box(2, 16, 2)
ARGFILE = '{"output_dir": "/workspace/output/mine", "bf16": true, "model_name_or_path": "m"}'


class Case(NamedTuple):
    """One decision: the files of launchers and more variables, what is typed, the machine, the stack, and the user."""

    name: str
    left: tuple[str, ...] = ()
    more: Mapping[str, str] = {}
    typed: str = "smoke --bf16"
    box: Box = SERVER
    limit: Mapping[str, str] = {}
    stack: Mapping[str, str] = GLOO
    uid: int = 1000
    cpus: str = ""
    shm: int = 1 << 30
    libraries: tuple[str, ...] = LIBRARIES


NODE0 = {"MASTER_ADDR": "node0"}
BY_HAND = {"MASTER_ADDR": "node0", "RANK": "1", "WORLD_SIZE": "2"}
WITHOUT_BF16 = {"/proc/cpuinfo": "processor: 0\nflags: fpu avx2 avx512f\n"}
# Machines of arm64: no processor has a second thread.
GRAVITON3 = Box(1, 64)
WITH_SVE = {"/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd asimddp sve i8mm bf16\nCPU part\t: 0xd40\n"}
WITHOUT_SVE = {"/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd0c\n"}
CHOSEN = (
    Case("arm64", typed="qa --bf16", box=GRAVITON3, limit=WITH_SVE, libraries=ARM64_LIBRARIES),
    Case("arm64-without-bf16", typed="qa --bf16", box=Box(1, 80), limit=WITHOUT_SVE, libraries=ARM64_LIBRARIES),
    Case(
        "arm64-in-a-pod", ("pytorchjob-master",), box=GRAVITON3, limit={**WITH_SVE, **pod(8)}, libraries=ARM64_LIBRARIES
    ),
    Case("arm64-of-launch", ("mpich-1",), box=GRAVITON3, limit=WITH_SVE, libraries=ARM64_LIBRARIES),
    Case("alone-laptop", box=LAPTOP, shm=64 << 20),
    Case("alone-numa", box=HOST),
    Case("alone-one-process", typed="--nproc 1 smoke", box=HOST),
    Case("alone-too-many-processes", typed="--nproc=9 smoke", box=LAPTOP),
    Case("alone-quota", box=HOST, limit=pod(4)),
    Case("alone-quota-of-half-a-core", box=LAPTOP, limit=docker(0.5)),
    Case("alone-nested-quota", box=HOST, limit=nested(32, 16)),
    Case("alone-cpuset", box=HOST, limit=cpuset("0-7"), cpus="0-7"),
    Case("alone-ccl", stack=CCL, typed="--nproc 2 smoke"),
    Case("alone-unknown-user", uid=123456, more={"HOME": "/"}),
    Case("alone-own-threads", more={"OMP_NUM_THREADS": "3", "KMP_BLOCKTIME": "0"}, box=LAPTOP),
    Case("alone-command", typed="true"),
    Case("alone-script", typed="--nproc 1 /workspace/train.py --hub_token hf_x"),
    Case("alone-task", typed="qa --bf16 --max_steps 2"),
    Case("alone-task-of-another-release", typed="qa --no_cuda --evaluation_strategy epoch --use_ipex"),
    Case("alone-task-without-trainer", typed="qa-no-trainer", box=LAPTOP),
    Case("alone-task-with-argfile", typed="qa /workspace/arguments.json", box=LAPTOP),
    Case("alone-task-without-defaults", typed="audio-classification"),
    Case("alone-without-bf16", typed="qa --bf16", limit=WITHOUT_BF16),
    Case("alone-torchrun-typed", typed="torchrun --nproc_per_node=2 /workspace/train.py"),
    Case("torchrun-typed-in-a-pod", ("pytorchjob-master",), typed="torchrun /workspace/train.py", box=HOST),
    Case("alone-python", typed="python3 /workspace/train.py", box=HOST),
    Case("alone-mpirun-typed", typed="mpirun -n 4 python3 /workspace/train.py", box=HOST),
    Case(
        "torchrun-typed-for-two-nodes",
        typed="torchrun --nnodes 2 --node-rank 1 --master-addr node0 --nproc-per-node 4 x.py",
    ),
    Case("by-hand", more=BY_HAND),
    Case("by-hand-worker", more={**BY_HAND, "LOCAL_RANK": "0"}),
    Case("elastic-ccl", ("pytorchjob-elastic",), stack=CCL, box=HOST),
    Case("elastic-in-a-small-pod", ("pytorchjob-elastic",), box=HOST, limit=pod(4)),
    Case("mpi-in-a-pod", ("pytorchjob-master", "intel-mpi-1"), box=HOST),
    Case("mpi-ccl", ("intel-mpi-two-hosts-1",), NODE0, stack=CCL),
    Case("mpi-two-hosts-with-master", ("intel-mpi-two-hosts-0",), NODE0, typed="qa --ddp_backend ccl"),
    Case("mpich-two-hosts-with-master", ("mpich-two-hosts-1",), NODE0),
    Case("mpi-pinned", ("intel-mpi-1",), cpus="6-11,18-23"),
    Case("mpi-pinned-ccl", ("intel-mpi-1",), stack=CCL, cpus="6-11"),
    Case("mpi-broken-beside-a-command", more={"PMI_RANK": "0", "PMI_SIZE": "x"}, typed="true"),
    Case("mpijob-launcher", ("mpijob-launcher-intel",), typed="true"),
    Case("mpijob-worker-waits", ("mpijob-worker",), typed="worker"),
    Case("slurm-in-pmi2", ("slurm-step", "slurm-pmi2")),
    Case("slurm-with-master", ("slurm-step",), NODE0, typed="/workspace/train.py"),
    Case("slurm-and-torchrun", ("slurm-step", "torchrun-worker")),
    Case("master-on-the-bridge", ("pytorchjob-master",), {"MASTER_ADDR": "", "PET_MASTER_ADDR": "192.0.2.5"}),
    Case("argfile-that-is-no-object", typed="glue /workspace/list.json"),
    Case("ccl-without-a-worker", ("pytorchjob-elastic",), {"CCL_WORKER_COUNT": "0"}, stack=CCL),
    Case("backend-for-one-process", typed="qa --ddp_backend gloo", box=LAPTOP),
)


# What cases are drawn from.
TYPED = (
    "smoke", "smoke --bf16 --ddp_backend gloo", "--nproc 2 smoke", "--nproc 1 /workspace/train.py --bf16", "true",
    "/workspace/train.py", "--nproc 2 -m pkg.train", "python3 /workspace/train.py", "bash -c true", "qa -h",
    "mpirun -n 2 python3 /workspace/train.py", "accelerate launch /workspace/train.py", "qa --bf16 --max_steps 2",
    "qa --no_cuda --overwrite_output_dir --report_to none", "launch -n 2 --hosts node0 python3 x.py", "qa-no-trainer",
    "qa /workspace/arguments.json", "prefetch qa", "doctor --network", "glue --do_eval --output_dir /workspace/b",
)  # fmt: skip
VARIABLES: tuple[Mapping[str, str], ...] = (
    {}, {"OMP_NUM_THREADS": "3"}, {"KMP_AFFINITY": "compact", "LD_PRELOAD": "/a.so"}, {"I_MPI_PIN": "off"},
    {"MULTINODE_LOGS": "/workspace/output/logs"}, {"MULTINODE_RESUME": "no"}, {"MULTINODE_WORLD_SIZE": "2"}, NODE0,
    {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "1234"}, {"CCL_WORKER_COUNT": "2", "CCL_WORKER_AFFINITY": "auto"},
    {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_CACHE": "/models"}, {"MULTINODE_GRADIENTS": "float32"}, {"HOME": "/"},
    {"GLOO_SOCKET_IFNAME": "docker0"}, {"MULTINODE_OUTPUT": "/workspace/output/mine"}, {"RANK": "0", "WORLD_SIZE": "2"},
    {"MULTINODE_METRICS": "9100", "MULTINODE_BF16": "emulate"}, {"GOMP_CPU_AFFINITY": "0-3", "KMP_BLOCKTIME": "0"},
    {"MASTER_PORT": "tcp://10.0.0.1:80", "PMI_PORT": "tcp://10.0.0.1:80"}, {"LD_PRELOAD": "/usr/local/lib/libiomp5.so"},
)  # fmt: skip
BOXES = (LAPTOP, SERVER, HOST, Box(1, 1))
LIMITS: tuple[Mapping[str, str], ...] = ({}, pod(4), docker(0.5), nested(32, 16), cpuset("0-3"), {}, WITHOUT_BF16)
DRAWN = 160


def draw(number: int) -> Case:
    """Return the case that a checksum of its number puts together: another value of one table moves no other choice."""

    def choose(name: str, values: Sequence[Any]) -> Any:
        return values[zlib.crc32(f"{name} {number}".encode()) % len(values)]

    left = choose("environment", names()) if number % 8 else ""
    limit = choose("limit", LIMITS)
    return Case(
        f"drawn-{number}", (left,) if left else (), choose("variables", VARIABLES), choose("typed", TYPED),
        choose("box", BOXES), limit, choose("stack", (GLOO, CCL)), choose("uid", (1000, 1000, 123456)),
        "0-3" if limit == LIMITS[4] else "", choose("shm", (1 << 30, 64 << 20)),
        choose("libraries", (LIBRARIES, LIBRARIES, LIBRARIES[:1])),
    )  # fmt: skip


def describe(case: Case) -> str:
    """Return what somebody would set and type to have the case."""
    return " ".join([*(f"{name}={value}" for name, value in case.more.items()), *case.left, "$", case.typed])


def cases() -> list[Case]:
    """List every case: all recorded environments with `smoke`, those chosen, and those drawn."""
    return [*(Case(f"recorded-{name}", (name,)) for name in names()), *CHOSEN, *map(draw, range(DRAWN))]


# Those whose words are kept, too.
WORDS = ("alone-quota", "alone-task", "torchrun-typed-in-a-pod", "elastic-ccl", "mpi-pinned-ccl", "slurm-with-master")
COMMON, TEXT = "common.json", "text.json"
FILES = {"recorded": "recorded.json", "drawn": "drawn.json", "": "chosen.json"}  # by how the names of its cases begin


def produce() -> dict[str, str]:
    """Make the golden data of all cases: name of the file -> text."""
    environments = [(case, {**IMAGE, **left_by(*case.left), **case.more}) for case in cases()]
    decisions, words = {}, {}
    torchrun.recorded()  # its file is none of the container's
    with Patcher() as patcher:
        assert patcher.fs is not None
        furnished = ""
        for case, environ in sorted(environments, key=lambda one: furniture(one[0])):
            if furnished != (furnished := furniture(case)):
                patcher.fs.reset()
                furnish(case, patcher.fs)
            set_uid(case.uid)
            with pretend(case):
                decisions[case.name] = decide(case, environ)
                if case.name in WORDS:
                    words[case.name] = run(["--explain", *case.typed.split()], environ)[1].splitlines()
    kinds = {name: kind(facts) for name, facts in decisions.items() if "exit" not in facts}
    common = {like: decisions[name] for like, name in LIKE.items()}
    groups: dict[str, dict[str, Any]] = {file: {} for file in FILES.values()}
    for case, _ in environments:
        facts = decisions[case.name]
        like, group = kinds.get(case.name), case.name.partition("-")[0]
        what = {"case": describe(case)} if group == "drawn" else {}
        start = {**what, "like": like, **differ(facts, common.get(like or "", {}))}
        groups[FILES.get(group, FILES[""])][case.name] = start
    files = {file: write_all(group) for file, group in groups.items()}
    return {**files, COMMON: data.as_json(common), TEXT: data.as_json({name: words[name] for name in WORDS})}


def read(files: Mapping[str, str]) -> dict[str, str]:
    """Return each case of the golden data as text, by its name."""
    return {name: write(facts) for file in FILES.values() for name, facts in json.loads(files[file]).items()}


def decide(case: Case, environ: dict[str, str]) -> dict[str, Any]:
    """Return what `--explain=json` says of one case; of a refusal its exit code and its lines.

    Of a typed torchrun it is what is decided once that has read its options.
    """
    if (asked := torchrun.ask(case.typed.split(), environ)) is not None:
        situation, facts = place_ranks(asked, environ, ROOT)
        return dict(json.loads(plan_as_json(make_plan(situation, look_ahead(situation, facts), facts))))
    code, out, err = run(["--explain=json", *case.typed.split()], environ)
    return {"exit": code, "stderr": err.splitlines()} if code else dict(json.loads(out))


def kind(facts: Mapping[str, Any]) -> str:
    """Return which starts a decision is compared with."""
    if facts["argv"][0] == "mpiexec.hydra":
        return "launch"
    return "training" if "MULTINODE_WORLD_SIZE" in facts["set"] else "command"


def differ(facts: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a decision has and the common one has not, and null for what it lacks."""
    different: dict[str, Any] = {}
    for key in dict.fromkeys([*common, *facts]):
        here, there = facts.get(key), common.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            here, there = differ(here, there), {}
        if here != there:
            different[key] = here
    return different


def write_all(starts: Mapping[str, Mapping[str, Any]]) -> str:
    """Write all cases of a file, one after the other."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {write(facts).strip()}" for name, facts in starts.items()) + "\n}\n"


def write(facts: Mapping[str, Any]) -> str:
    """Write one key a line, and a list of sentences or a group of variables one item a line."""
    lines = []
    for key, value in facts.items():
        tall = key in ("set", "stderr", "notes") and bool(value)
        text = json.dumps(value, indent=1 if tall else None, ensure_ascii=False)
        lines.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def run(argv: list[str], environ: dict[str, str]) -> tuple[int, str, str]:
    """Run the entrypoint's main function: exit code, stdout, stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(argv, environ, ROOT)
    return code, out.getvalue(), err.getvalue()


def furniture(case: Case) -> str:
    """Say what a file system is filled by, which takes longer than a decision: cases with the same one share it."""
    return repr((case.box, case.limit, case.stack, case.libraries, case.uid))


def furnish(case: Case, system: FakeFilesystem) -> None:
    """Fill the file system of a container; nobody may write in /etc."""
    stack = json.dumps({**case.stack, "examples": EXAMPLES, "site": SITE})
    mine = {f"{ROOT}/stack.json": stack, "/workspace/train.py": "", "/workspace/arguments.json": ARGFILE}
    mine["/workspace/list.json"] = "[]"
    scripts = {f"{EXAMPLES}/examples/pytorch/{script}": text for script, text in SCRIPTS.items()}
    texts = {**PROC, **ETC, **mine, **scripts, **case.limit}
    texts[f"/proc/{PARENT}/status"] = f"Cpus_allowed_list:\t{case.box.files()[ONLINE]}\n"
    for path, text in texts.items():
        system.create_file(path, contents=text)
    for path in case.libraries:
        system.create_file(path)
    for path in PROGRAMS:
        system.create_file(path, st_mode=0o100755)
    for path in DIRECTORIES:
        system.makedirs(path, exist_ok=True)
        system.chmod(path, 0o777)
    system.chmod("/etc", 0o555)
    for package in PACKAGES:
        system.create_dir(f"{SITE}/{package}.dist-info")


@contextlib.contextmanager
def pretend(case: Case) -> Iterator[None]:
    """Give the process a user, processors, a parent, and addresses to look up.

    The many files of the processors are no part of the fake file system, which would take longest to make.
    """
    cpus = read_cpus(case.cpus) or case.box.cpus(range(case.box.total))
    user = pwd.struct_passwd(("multinode", "x", 1000, 0, "", "/home/multinode", "/bin/bash"))
    with contextlib.ExitStack() as stack:
        for name, value in (
            ("multinode_image.facts.read_text", lambda path: case.box.files().get(path) or read_text(path)),
            ("os.sched_getaffinity", lambda _: cpus),
            ("os.getppid", lambda: PARENT),
            ("os.statvfs", lambda _: mock.Mock(f_frsize=1, f_blocks=case.shm, f_bavail=case.shm)),
            ("pwd.getpwuid", {1000: user}.__getitem__),
            ("grp.getgrgid", {0: ("root",)}.__getitem__),
            ("socket.getaddrinfo", look_up),
            ("multinode_image.machine.network.is_free", lambda _: True),
            ("multinode_image.machine.network.find_way", find_way),
            ("multinode_image.machine.network.list_ipv4", lambda: INTERFACES),
            ("multinode_image.world.torchrun.find_local_address", lambda _: "192.0.2.2"),
            ("multinode_image.world.torchrun.is_here", lambda host: host == "192.0.2.2"),
            ("multinode_image.world.torchrun.split_addresses", lambda _: ([], [])),
            ("multinode_image.world.torchrun.is_free", lambda _: True),
            ("os.isatty", lambda _: True),
            ("subprocess.run", lambda *_, **__: mock.Mock(stdout=b"")),
        ):
            stack.enter_context(mock.patch(name, value))
        yield


def find_way(to: tuple[int, tuple[str, int]]) -> tuple[str, str]:
    """Return an address, and that of the interface on the way there."""
    return to[1][0], "172.17.0.1" if to[1][0].startswith("172.17.") else "192.0.2.2"


def look_up(host: str, *_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    """Look up a name in a table."""
    address = ADDRESSES.get(host, host)
    if not address.replace(".", "").isdigit():
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
