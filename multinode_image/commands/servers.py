"""`notebook` and `tensorboard`: JupyterLab and TensorBoard, where the image has them, told what a container needs.

JupyterLab makes a token, prints it, and lets nobody in without it. TensorBoard lets in whoever reaches its port.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.machine.files import can_write, which
from multinode_image.machine.places import list_lost
from multinode_image.printing.streams import print_note
from multinode_image.results.record import RESULTS
from multinode_image.tasks.command import NOTEBOOK, PLAIN, TENSORBOARD, Command
from multinode_image.tasks.defaults import OUTPUT
from multinode_image.world.model import World

# What runs for each command, and the package that has it.
PROGRAMS = {NOTEBOOK: ("jupyter-lab", "jupyterlab"), TENSORBOARD: ("tensorboard", "tensorboard")}
# What makes an image with both, in a clone.
PACKAGES = "--requirements examples/notebook.txt --tag multinode:notebook"
# An option as it is given where the user has given none of these names.
Usual = Sequence["tuple[tuple[str, ...], str]"]


def make_server_command(command: Command, world: World, facts: Facts) -> Command:
    """Return the command line of a server; raise Refusal where the image does not have it, and for a job's notebook."""
    name, package = PROGRAMS[command.kind]
    if which(name, facts.environ) is None:
        value = f"torch {facts.stack.torch}, transformers {facts.stack.transformers}"
        raise Refusal(f"the image has no {package}", value, f"{facts.stack.again} {PACKAGES}")
    if command.kind == NOTEBOOK:
        check_one_node(world)
        usual = find_notebook(facts.environ_with_home, facts.mounts, can_write, print_note)
    else:
        usual = [
            (("--logdir", "--logdir_spec"), f"--logdir={facts.environ.get(RESULTS) or OUTPUT}"),
            (("--host", "--bind_all"), "--host=0.0.0.0"),
        ]
    return Command(PLAIN, name, [*choose_options(usual, command.words), *command.words])


def find_notebook(
    environ: Mapping[str, str],
    mounts: Sequence[str],
    writable: Callable[[str], bool],
    say: Callable[[str], None],
) -> Usual:
    """Return the options of JupyterLab: it shows this directory, or the user's home where nothing here can be kept."""
    here = os.getcwd()
    has_mount = any(mount.startswith(f"{here.rstrip('/')}/") for mount in mounts)
    place = here if has_mount or writable(here) else environ.get("HOME", here)
    if not has_mount and list_lost([place], mounts):
        say(f"notebooks in {place} are lost with the container: docker run -v $PWD:/workspace/mine keeps those of mine")
    return [
        (("--ip", "--ServerApp.ip"), "--ip=0.0.0.0"),
        (("--no-browser", "--ServerApp.open_browser"), "--no-browser"),
        (("--notebook-dir", "--ServerApp.root_dir"), f"--ServerApp.root_dir={place}"),
        *([(("--allow-root", "--ServerApp.allow_root"), "--allow-root")] if os.getuid() == 0 else []),
    ]


def choose_options(usual: Usual, words: Sequence[str]) -> list[str]:
    """Return the usual options that no word gives by one of their names."""
    given = {word.partition("=")[0] for word in words}
    return [option for names, option in usual if given.isdisjoint(names)]


def check_one_node(world: World) -> None:
    """Raise Refusal for a notebook on one of several nodes: the others would wait for ranks that it does not start."""
    if world.several_nodes:
        remedy = "IMAGE train.py on each node, which trains as one job; for a notebook unset the launcher's variables"
        raise Refusal("a notebook trains on one node alone", f"{world.launcher} ({world.why})", remedy)
