"""What is in the container and around it: checks of `doctor`, each a pure function of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.doctor.view import WARNING, WRONG, Finding
from entrypoint.machine.certificates import BEGIN
from entrypoint.machine.image import BESIDE_TORCH, REBUILD, TOOLS, TORCH_INDEX, WITHOUT_HOME, release
from entrypoint.machine.interfaces import BACKENDS, find_wrong
from entrypoint.machine.limits import write_size
from entrypoint.machine.places import CERTIFICATE
from entrypoint.world.model import MPIJOB_LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from entrypoint.doctor.view import View

# An older datasets, which loads data sets that are scripts, brings older releases of other packages.
OLDER, WITHOUT_SCRIPTS = frozenset({"datasets", "dill", "fsspec", "multiprocess", "pandas"}), (4, 0)
NAMED = "correct what is named; the other rows may say why"
OWN_PYTHON = "put /usr/local/bin and /usr/bin first in PATH"
EXPECTED = ("libtcmalloc", "libiomp5")
# A checkpoint of DistilBERT with its optimizer: 66 million parameters, 12 bytes each.
CHECKPOINT = 800 << 20


def check_launcher(view: View) -> Finding:
    """Find who starts the ranks, or why a training would not start."""
    if view.refusal is not None:
        return Finding(f"{view.refusal.fact}: {view.refusal.value}", WRONG, view.refusal.remedy)
    world = view.decision.world
    if world.launcher == MPIJOB_LAUNCHER:
        return Finding(f"{world.launcher} ({world.why}), ranks run on the hosts of the hostfile: --explain smoke")
    return Finding(f"{world.launcher} ({world.why}), world {world.asked}")


def check_packages(view: View) -> Finding:
    """Compare what Python would import with what the image was built from."""
    if not view.locked:
        return Finding("the image has no constraints.txt", WRONG, REBUILD)
    if view.probe.path and view.stack.site not in view.probe.path:
        return Finding(f"the python3 in PATH does not read {view.stack.site}", WRONG, OWN_PYTHON)
    differing = {
        name: f"{name} {' and '.join(have) or 'missing'} instead of {version}"
        for name, version in sorted(view.locked.items())
        if name not in TOOLS and (have := view.installed.get(name, ())) != (version,)
    }
    value, chosen = "; ".join(differing.values()), list_chosen(view)
    damaged = [name for name in differing if name not in chosen]
    if damaged:
        at_home = not view.hidden.isdisjoint(damaged)
        return Finding(value, WRONG, WITHOUT_HOME if at_home else install_again(view, damaged))
    if differing:
        remedy = f"leave it for data sets that need an older datasets; else {install_again(view, differing)}"
        return Finding(value, WARNING, remedy)
    more = len(view.installed.keys() - view.locked.keys())
    return Finding(f"{len(view.locked.keys() - TOOLS)} as locked" + (f", {more} more" if more else ""))


def list_chosen(view: View) -> set[str]:
    """List packages whose other release is no damage: an older datasets, which a task may need, and what it brings."""
    have, locked = view.installed.get("datasets", ()), view.locked.get("datasets", "")
    if len(have) != 1 or not release(have[0]) < WITHOUT_SCRIPTS <= release(locked):
        return set()
    return {name for name in OLDER if len(view.installed.get(name, ())) == 1}


def install_again(view: View, names: Iterable[str]) -> str:
    """Return the command that installs packages as they are locked."""
    pins = [f"{name}=={view.locked[name]}" for name in names]
    local = any(pin.startswith("torch==") and "+" in pin for pin in pins)
    index = f"--extra-index-url {TORCH_INDEX} " if local else ""
    return f"pip install --no-deps --force-reinstall {index}{' '.join(pins)}"


def check_python(view: View) -> Finding:
    """Compare Python with the image's own."""
    has, want = view.probe.python, view.stack.python
    if has and has.split(".")[:2] != want.split("."):
        return Finding(f"{has} instead of {want}", WRONG, OWN_PYTHON)
    return Finding(has or want)


def check_torch(view: View) -> Finding:
    """Return whether the torch that is imported is the image's own."""
    probe, site = view.probe, view.stack.site
    if probe.file and not probe.file.startswith(f"{site}/"):
        remedy = WITHOUT_HOME if "torch" in view.hidden else "unset PYTHONPATH, or remove what is in front"
        return Finding(f"{probe.torch} from {probe.file}", WRONG, remedy)
    if not probe.torch:
        return Finding(f"cannot be imported: {probe.error}", WRONG, NAMED)
    if probe.torch != view.stack.torch:
        return Finding(f"{probe.torch} instead of {view.stack.torch}", WRONG, REBUILD)
    return Finding(probe.torch)


def check_transformers(view: View) -> Finding:
    """Return whether the transformers that is imported is the image's own, and has a Trainer that can be imported."""
    probe = view.probe
    if not probe.transformers:
        name, remedy = probe.importing, f"{NAMED}; or {WITHOUT_HOME}" if view.hidden else NAMED
        if name in BESIDE_TORCH:  # pip takes no other build of a version while that is installed
            remedy = f"pip uninstall -y {name} && pip install --index-url {TORCH_INDEX} {name}"
        subject = "" if name in ("", "transformers") else f"{name} "
        return Finding(f"{subject}cannot be imported: {probe.broken or probe.error}", WRONG, remedy)
    if probe.transformers != view.stack.transformers:
        remedy = WITHOUT_HOME if "transformers" in view.hidden else REBUILD
        return Finding(f"{probe.transformers} instead of {view.stack.transformers}", WRONG, remedy)
    return Finding(probe.transformers)


def check_preloads(view: View) -> Finding:
    """Find the preloaded libraries in a process that was started with them."""
    mapped = view.probe.mapped
    absent = [path for path, real in view.preloads if mapped and real not in mapped and path not in mapped]
    if absent:
        remedy = "name files that exist in LD_PRELOAD, or unset it: the entrypoint knows what belongs there"
        return Finding(f"not mapped into a process: {' '.join(absent)}", WRONG, remedy)
    lacking = [name for name in EXPECTED if not any(name in path for path in mapped)]
    if mapped and lacking:
        return Finding(f"without {' and '.join(lacking)}", WARNING, "unset LD_PRELOAD; " + REBUILD)
    return Finding("mapped: " + " ".join(path.rpartition("/")[2] for path, _ in view.preloads))


def check_backend(view: View) -> Finding:
    """Return whether a group of ranks can form with the backend."""
    name = view.stack.backend
    if view.probe.error:
        return Finding(f"{name}: {view.probe.error}", WRONG, NAMED)
    return Finding(f"{name}: a group of one rank has formed")


def check_network(view: View) -> Finding:
    """List the interfaces, and the one where ranks meet."""
    environ = view.decision.prepared.environ
    names = [each.name for each in view.interfaces]
    value = ", ".join(f"{each.name} {each.state}" for each in view.interfaces) or "no interface"
    if view.decision.world.several_nodes and set(names) <= {"lo"}:
        return Finding(f"{value}, and the world has several nodes", WRONG, "docker run --network NAME")
    wrong = find_wrong(environ, names, BACKENDS)
    if wrong:
        return Finding(f"{wrong}={environ[wrong]}, and there is only: {value}", WRONG, f"unset {wrong}")
    if view.decision.world.launcher == MPIJOB_LAUNCHER:
        return Finding(f"{value}; ranks meet on the network of the hosts in the hostfile")
    return Finding(f"{value}; ranks meet on {environ.get('GLOO_SOCKET_IFNAME') or 'what the library picks'}")


def check_certificate(view: View) -> Finding:
    """Find which certificates are trusted."""
    if view.certificate is None:
        return Finding(f"the system's; none is mounted at {CERTIFICATE}")
    if BEGIN not in view.certificate:
        return Finding(f"{CERTIFICATE} has no certificate in PEM form", WRONG, "mount a file that begins with " + BEGIN)
    return Finding(f"the system's and {CERTIFICATE}")


def check_user(view: View) -> Finding:
    """Find which user this is."""
    environ = view.decision.prepared.environ
    return Finding(f"uid {view.user[0]}, gid {view.user[1]}, home {environ.get('HOME', 'none')}")


def check_directories(view: View) -> Finding:
    """Check the directories that a training writes to."""
    closed = [each.path for each in view.directories if not each.writable]
    if closed:
        remedy = f"mount a directory that this user may write: docker run -v results:{closed[0]}"
        return Finding(f"cannot be written: {' '.join(closed)}", WRONG, remedy)
    full = [each for each in view.directories if each.free is not None and each.free < CHECKPOINT]
    if full:
        value = ", ".join(f"{each.path} has {write_size(each.free or 0)} left" for each in full)
        return Finding(value, WARNING, f"free some space: a small checkpoint takes {write_size(CHECKPOINT)}")
    lost = [each.path for each in view.directories[:2] if not each.mounted]
    end = f"; lost with the container: {' '.join(lost)}" if lost else ""
    return Finding("can be written: " + " ".join(each.path for each in view.directories) + end)
