"""What the pods run, and where its results are."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from manifests.pod import SCRIPT_DIRECTORY
from manifests.request import DOWNLOADS, INDEX, OFF, REFERENCE, ManifestKind, Request
from manifests.secrets import FACT
from multinode_image import timeouts
from multinode_image.errors import Refusal
from multinode_image.printing.secrets import hide
from multinode_image.results.identity import OUTPUTS
from multinode_image.results.record import RESULTS
from multinode_image.tasks.aliases import plain, split_flags
from multinode_image.tasks.command import COMMANDS, MODULE, SMOKE
from multinode_image.tasks.defaults import OUTPUT, OUTPUT_DIR
from multinode_image.tasks.table import OTHER, TASKS
from multinode_image.world.model import TORCHRUN
from multinode_image.world.starters import ACCELERATE, find_lone, find_start, is_python

GUIDE = ["qa", "--bf16"]  # what the Hugging Face guide trains
# Commands of the entrypoint that train nothing.
OTHERS = tuple(name for name, kind in COMMANDS.items() if not kind.is_script)
TEXT = (*TASKS, SMOKE.name)  # what is known here; the other examples of an image are not
EXAMPLE = "/workspace/transformers/examples/pytorch/DIRECTORY/run_NAME.py"
PROGRAMS = ("torchrun", "python", "python3", "accelerate", "bash", "sh")


def finish(request: Request) -> Request:
    """Return the request with the command of its pods, the directory of its results, and how many pods it needs.

    Raise Refusal for what would train nothing, train once in each pod, or lose its results with the pods.
    """
    words = place_scripts(request, [*request.words][request.words[:1] == ["--"] :])
    check_command(request, words[0])
    check_secrets(words)
    check_starter(request, words)
    results, env = f"{request.mount}/{request.name}{f'/$({INDEX})' if request.is_sweep else ''}", dict(request.env)
    if request.kind.is_job and find_output(words) is None:
        # Jobs share the claim, and each directory has the results of one: what a task gets, and a script can read.
        words += [f"--{OUTPUT_DIR}", results] if names_results(words) else []
        env |= {} if words[0] in TEXT else {RESULTS: env.get(RESULTS, results)}
    bounds = choose_bounds(request, words[0])
    if needs_time(request, bounds):
        env.setdefault(timeouts.VARIABLE, str(timeouts.PODS))
    finished = replace(request, words=words, env=env, elastic=bounds)
    check_results(finished)
    return finished


def needs_time(request: Request, bounds: tuple[int, int] | None) -> bool:
    """Return whether pods have to wait for others that may pull the image first; bounds: the pods of an elastic job.

    In an elastic PyTorchJob no init container waits for a Master, and a pod that gives up is a restart, of which the
    job has so many. Kueue suspends an MPIJob before it has workers, and then the operator makes the launcher at once:
    none of none are missing (countReadyWorkerPods in pkg/controller/mpi_job_controller.go, mpi-operator v0.8.0).
    """
    return bounds is not None or (request.kind.starts_ranks and request.queue is not None)


def place_scripts(request: Request, words: list[str]) -> list[str]:
    """Return the command with the path that a script of this machine has in the pods, or what they run without one."""
    words = words or [*request.script][:1] or default_command(request.kind)
    return [f"{SCRIPT_DIRECTORY}/{words[0]}", *words[1:]] if words[0] in request.script else words


def default_command(kind: ManifestKind) -> list[str]:
    """Return what pods of a kind run where neither a command nor a script is typed."""
    return GUIDE[: 2 if kind.trains else 1]


def check_command(request: Request, name: str) -> None:
    """Raise Refusal for a word that is nothing which these pods could run."""
    if name.startswith("-") and name != MODULE:
        fact = "an option of manifest.py is unknown, or comes after the task"
        raise Refusal(fact, name, f"--help shows the options of {request.kind.name}; those of the task come after it")
    if name in OTHERS or (not request.kind.trains and name not in TASKS):
        wanted = "trained in the pods of a job" if request.kind.trains else "fetched"
        raise Refusal(f"this is nothing that can be {wanted}", name, "a task, such as qa, glue or mlm")
    if name not in (*TEXT, *PROGRAMS, MODULE) and "/" not in name and not name.endswith(".py"):
        near = [*difflib.get_close_matches(name, TEXT, n=1), f"a script of the image by its path: {EXAMPLE}"]
        raise Refusal("neither a task for text nor a program that is known here", name, " or ".join(near))


def check_secrets(words: Sequence[str]) -> None:
    """Raise Refusal for a secret among the arguments; `$(NAME)` is replaced by Kubernetes, and is none."""
    plain = [REFERENCE.sub("1", word) for word in words]
    hidden = next((place for place, word in enumerate(hide(plain)) if word != plain[place]), None)
    if hidden is not None:
        name = words[hidden].partition("=")[0] if "=" in words[hidden] else words[hidden - 1]
        remedy = f"{name} '$(MINE)', with --env-secret MINE=SECRET:KEY"
        raise Refusal(FACT, hide([name])[0], remedy)


def check_starter(request: Request, words: Sequence[str]) -> None:
    """Raise Refusal for a program that would train once in each pod, or in the launcher of mpirun alone."""
    if words[0].endswith(".py"):  # it is started as ranks, whatever its name begins with
        return
    starter = find_start([*words])
    program = starter.program if starter else ""
    script = next((word for word in words if word.endswith(".py")), "train.py")  # what the program runs it knows alone
    lone = find_lone([*words]) or (script if program == ACCELERATE else "")  # on a CPU that starts one process
    if request.kind.starts_ranks and (is_python(words[0]) or program in (TORCHRUN, ACCELERATE)):
        fact = "this program would train in the launcher alone, for mpirun starts ranks of tasks and scripts only"
        raise Refusal(fact, words[0], f"the script itself: {lone or script}")
    if lone and request.workers > 1 and not request.is_sweep:
        instead = f"{lone}, which all pods train together"
        raise Refusal("each pod would train a model of its own", f"{words[0]} in {request.workers} pods", instead)


def choose_bounds(request: Request, name: str) -> tuple[int, int] | None:
    """Return the fewest and the most pods of an elastic job: all of them for a script, which may begin anew."""
    if "--elastic" not in request.kind.options or request.elastic == OFF:
        return None
    fewest = 1 if name in TEXT else request.workers
    return request.elastic or (fewest, request.workers)


def names_results(words: Sequence[str]) -> bool:
    """Return whether this is a task whose arguments, typed one by one, say where results go."""
    is_file = len(words) == 2 and words[1].endswith(".json")
    return words[0] in TASKS and TASKS[words[0]].kind != OTHER and not is_file


def find_output(words: Sequence[str]) -> str | None:
    """Return the directory for results that the arguments name; of a task argparse takes its beginning, too."""
    flags = [(plain(flag.name), flag.values) for flag in split_flags(words[1:]) if flag.name]
    is_task = words[0] in TEXT
    directories = [values for name, values in flags if (OUTPUT_DIR.startswith(name) if is_task else name in OUTPUTS)]
    return "".join(directories[-1][:1]) if directories else None


def locate_results(request: Request) -> str | None:
    """Return where results go, as far as it is known here: a reference is replaced by a kubelet.

    The number of a pod stays in it: each directory of a sweep is on the same claim.
    """
    usual = f"{OUTPUT}/{request.words[0]}" if names_results(request.words) else None
    typed = find_output(request.words)
    path = (request.variables.get(RESULTS) or usual) if typed is None else typed
    return None if path is None or REFERENCE.search(path.replace(f"$({INDEX})", "")) else path


def check_results(request: Request) -> None:
    """Raise Refusal for results or downloads that are not on a claim, and would be lost with the pod."""
    home, output = request.variables["HF_HOME"], locate_results(request)
    if not request.kind.trains and not REFERENCE.search(home) and find_claim(home, request) is None:
        fact = "downloads would not be on a claim, and be lost with the pod"
        raise Refusal(fact, f"HF_HOME={home}", f"--env HF_HOME={request.mount}/{DOWNLOADS}")
    if not request.kind.trains or output is None:
        return
    among = f"{posixpath.normpath(output)}/".startswith(f"{request.mount}/{DOWNLOADS}/")
    if among or find_claim(output, request) is None:
        name = posixpath.basename(request.words[0]).removesuffix(".py")
        fact = "results would not be on a claim, and be lost with the pod, or be among the downloads"
        raise Refusal(fact, f"{output}, not in {request.mount}", f"--{OUTPUT_DIR} {request.mount}/{name}")


def find_claim(path: str, request: Request) -> str | None:
    """Return the claim that a path leads to, with `..` and `//` resolved; None for none, and for a relative path."""
    resolved = "/" + posixpath.normpath(path).lstrip("/")
    claims = [volume for volume in request.claims if f"{resolved}/".startswith(f"{volume.path}/")]
    return max(claims, key=lambda volume: len(volume.path)).claim if claims and path.startswith("/") else None


def describe_results(request: Request) -> list[str]:
    """Return the line that says where results will be."""
    output = locate_results(request)
    if request.words[0] == SMOKE.name:
        return []
    if output is None:
        return [f"results: what is written to the claim {request.pvc}, below {request.mount}, stays"]
    where = f"{output}, on the claim {find_claim(output, request)}"
    if find_output(request.words) or request.words[0] in TEXT:
        return [f"results: {where}"]
    return [f"results: {where}, if the script writes to {RESULTS}; what it writes off the claims is lost with its pod"]
