"""A Slurm of three containers, a controller and two nodes: Debian's own packages on the image of the session."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from images.layers.entrypoint_layer import GID, UID
from tests.cluster import packages
from tests.support.containers import Started, detached, network
from tests.support.harness import Done, call

PACKAGES = ("libpmix2", "munge", "slurm-client", "slurmctld", "slurmd")
CONTROLLER, NODES = "ctl", ("node0", "node1")
SHARED = "/shared"  # a directory that all three have, as the home directories of a site

# munged wants a key that nobody else can read, so the key is a file of this image, which is removed with the test.
STEPS = f"""\
RUN for path in /usr/sbin/slurm*-wlm; do ln -s $path ${{path%-wlm}}; done \\
    && ln -s libpmix.so.2 /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so \\
    && install -D -m 0400 /packages/munge.key /etc/munge/munge.key \\
    && install -D -m 0644 /packages/slurm.conf /etc/slurm/slurm.conf \\
    && install -d /var/spool/slurmctld /var/spool/slurmd /var/log/slurm \\
    && install -d -m 1777 {SHARED}
ENTRYPOINT ["tini", "--"]
"""
# slurm.conf(5). The processors are the configuration's, not the machine's: two tasks fit on a node of one. Jobs may
# share them, as they do where a site lets several small ones run on a node.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={controller}
SlurmUser=root
SlurmdParameters=config_overrides
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
KillWait=5
MessageTimeout=60
ReturnToService=2
MailProg=/bin/true
LaunchParameters=use_interactive_step
NodeName={nodes} CPUs={processors} State=UNKNOWN
PartitionName=test Nodes={nodes} Default=YES OverSubscribe=YES:4
"""
START = (
    "sed --in-place s,task/none,task/{task}, /etc/slurm/slurm.conf"
    " && install -d /run/munge && munged --force && exec {daemon} -D"
)
DAEMONS = {CONTROLLER: "slurmctld", **dict.fromkeys(NODES, "slurmd")}


def build_image(image: str, tag: str, debs: Mapping[str, Path], place: Path) -> None:
    """Put Slurm onto an image, with a key and a configuration."""
    (place / "munge.key").write_bytes(secrets.token_bytes(128))
    processors = max(2, os.cpu_count() or 1)
    values = {"controller": CONTROLLER, "nodes": "node[0-1]", "processors": processors}
    (place / "slurm.conf").write_text(CONFIGURATION.format(**values))
    packages.build_image(image, tag, debs, place, [STEPS])


@dataclass
class Slurm:
    """The three containers and what was started in the controller's."""

    name: str
    started: list[Started] = field(default_factory=list)

    def command(self, script: str) -> list[str]:
        """Write the command line of a line of shell that the image's user types at the controller."""
        return ["docker", "exec", "--user", f"{UID}:{GID}", f"{self.name}-{CONTROLLER}", "bash", "-c", script]

    def run(self, script: str, seconds: float = 180) -> Done:
        """Run a line of shell at the controller."""
        return call(self.command(script), seconds=seconds)

    def start(self, script: str) -> Started:
        """Start a line of shell at the controller and go on; it is ended with the test."""
        self.started.append(Started(self.command(script)))
        return self.started[-1]

    def on_node(self, node: str, script: str, seconds: float = 60) -> Done:
        """Run a line of shell on a node, beside Slurm."""
        return call(["docker", "exec", f"{self.name}-{node}", "bash", "-c", script], seconds=seconds)

    def batch(self, options: str, script: str, seconds: float = 180) -> Done:
        """Submit a batch script and wait; return what its jobs said and the largest of their exit codes."""
        file, wrapped = "--output=$place/%j.out", shlex.quote(script)
        return self.run(
            f"place=$(mktemp --directory --tmpdir={SHARED}) && cd $place\n"
            f"job=$(sbatch --parsable {file} {options} --wrap {wrapped}) || exit 99\n"
            'until left=$(squeue --noheader --jobs $job) && [ -z "$left" ]; do sleep 0.2; done\n'
            "cat $place/*.out\n"
            "exit $(scontrol show job $job | sed -n 's/.* ExitCode=\\([0-9]*\\):.*/\\1/p' | sort -n | tail -1)",
            seconds,
        )

    def until(self, command: str, wanted: str, seconds: int) -> bool:
        """Ask the controller until it says what is wanted; return whether it did within some seconds."""
        ask = f'until [ "$({command})" = "{wanted}" ]; do [ $SECONDS -lt {seconds} ] || exit 1; sleep 0.2; done'
        return self.run(f"{ask} 2> /dev/null", seconds + 30).code == 0

    def clear(self) -> None:
        """End what a test has started, at the controller and on the nodes."""
        self.run("scancel --signal=KILL --full --user=$(id -un); scancel --user=$(id -un)")
        for child in self.started:
            child.end()
        self.started.clear()
        assert self.until("squeue --noheader", "", 90)


@contextlib.contextmanager
def up(tag: str, name: str, task: str = "none", options: Sequence[str] = ()) -> Iterator[Slurm]:
    """Start a controller and two nodes on a network of their own, wait until both are idle, and remove all in the end.

    task: which plugin binds tasks, none or affinity; options: more words for `docker run` of all three.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(network(name=name))
        for host, daemon in DAEMONS.items():
            words = ["--hostname", host, "--network-alias", host]
            words += ["--cap-add", "SYS_NICE"]  # slurmstepd binds a task that has become the user's already
            words += ["--volume", SHARED] if host == CONTROLLER else ["--volumes-from", f"{name}-{CONTROLLER}"]
            words += [*options, tag, "bash", "-c", START.format(task=task, daemon=daemon)]
            stack.enter_context(detached(*words, name=f"{name}-{host}", network=name))
        slurm = Slurm(name)
        assert slurm.until("sinfo --noheader --format=%D/%T", f"{len(NODES)}/idle", 120)
        yield slurm
