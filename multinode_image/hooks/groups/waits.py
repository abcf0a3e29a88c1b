"""Who waits for whom: each rank says in the job's store where it is, and rank 0 prints that where one waits for long.

A thread of its own looks at the stack of the script every five seconds, without a collective and without a signal: no
step of a training does anything for it. The same thread answers `multinode stacks`, which asks by a pipe of this
process, so that nothing is written to a disk, and no call of the system is interrupted.

A rank waits in one collective as long as its stack, the number of collectives and the number of steps are the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from multinode_image.hooks.job.messenger import connect
from multinode_image.hooks.job.one_job import DISTRIBUTED
from multinode_image.hooks.job.place import Job, count_exchanges, find_store, read_job
from multinode_image.hooks.job.spot import PASS, Spot, list_stacks, locate
from multinode_image.hooks.job.word import IDLE, WORD
from multinode_image.hooks.model.one_model import KNOWN
from multinode_image.settings import TRAINING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEAT, PAUSE = 5.0, 0.2  # seconds between two looks, and between two of a rank that ends
LONG, LATER = 60.0, 5  # seconds of a wait that is said, and how many times as long it is when it is said again
IDLE_AFTER = 8.0  # seconds of a wait after which what has started this rank is told: others may have ended
SILENT = 20.0  # seconds without a sign of a rank after which that is said
BUSY = 0.5  # of a core that a backward pass takes at the most while it waits for others
MOST = 4  # ranks that a line names
NAME = "multinode-stacks"  # of the file in memory that has the answer, then the process and its pipe
END, DONE = b".", b"\n.\n"  # what ends the thread, and an answer
ENDED, WAITED = "ended", "has waited"
SEVERAL = {"has": "have", "is": "are"}
WATCHING: list[Watch] = []


class Sign(NamedTuple):
    """What a rank says of itself: how often it has, where it is, and for how many seconds it has waited there."""

    beat: int
    place: str
    doing: str
    waited: float

    @property
    def spot(self) -> str:
        """Return where it is, in words."""
        return Spot(self.place, self.doing, False).text


class Ranks:
    """What the ranks of a job have said of themselves in its store, as this one reads it.

    news: when a rank has last said something new, by this process' clock.
    """

    def __init__(self, store: Any, prefix: str, rank: int, size: int) -> None:
        """Take a connection to the store, and how keys begin."""
        self.store, self.prefix, self.rank, self.size = store, prefix, rank, size
        self.read: dict[int, Sign] = {}
        self.news: dict[int, float] = {}

    def write(self, sign: Sign) -> None:
        """Say where this rank is."""
        self.take(self.rank, sign)
        self.store.set(f"{self.prefix}/{self.rank}", json.dumps(sign))

    def count(self, by: int) -> int:
        """Return how many long waits there have been, with so many more."""
        return int(self.store.add(f"{self.prefix}/waits", by))

    def look(self) -> None:
        """Read what all others have said."""
        for rank in range(self.size):
            name = f"{self.prefix}/{rank}"
            if rank != self.rank and self.store.check([name]):
                self.take(rank, Sign(*json.loads(bytes(self.store.get(name)).decode())))

    def take(self, rank: int, sign: Sign) -> None:
        """Remember a sign, and when it was new."""
        if self.read.get(rank) != sign:
            self.read[rank], self.news[rank] = sign, time.monotonic()

    def look_again(self, seconds: float) -> None:
        """Read what all others have said, and wait so long for something new of each."""
        self.look()
        began = time.monotonic()
        self.news.update(dict.fromkeys(self.read, began))
        while time.monotonic() < began + seconds and any(self.is_silent(rank, began) for rank in self.read):
            time.sleep(PAUSE)
            self.look()

    def is_silent(self, rank: int, since: float) -> bool:
        """Return whether another rank that has not ended has said nothing new since then."""
        return rank != self.rank and self.read[rank].doing != ENDED and self.news[rank] <= since

    def describe(self, ranks: Sequence[int], silent: float = SILENT) -> str:
        """Return who of these ranks waits where, and where the others are; silent: seconds without a sign."""
        known = {rank: self.describe_rank(rank, silent) for rank in ranks}
        texts = sorted(dict.fromkeys(known.values()), key=lambda text: not text.startswith(WAITED))
        return "; ".join(join([rank for rank in known if known[rank] == text], text) for text in texts)

    def describe_rank(self, rank: int, silent: float) -> str:
        """Return where a rank is, in words that follow its name."""
        sign, now = self.read.get(rank), time.monotonic()
        if sign is None:
            return "has not said where it is"
        if sign.doing == ENDED:
            return "has ended"
        if self.is_silent(rank, now - silent):
            return f"has given no sign for {now - self.news[rank]:.0f} s, and was at {sign.spot}"
        return f"{WAITED} {int(sign.waited / 60)} min at {sign.spot}" if sign.waited >= LONG else f"is at {sign.spot}"


def join(ranks: Sequence[int], text: str) -> str:
    """Return ranks and where they are, in words."""
    if len(ranks) == 1:
        return f"rank {ranks[0]} {text}"
    verb, _, rest = text.partition(" ")
    more = f" and {len(ranks) - MOST} more" if len(ranks) > MOST else ""
    return f"ranks {', '.join(map(str, ranks[:MOST]))}{more} {SEVERAL[verb]} {rest}"


class Wait:
    """Since when this rank waits in one place; progress: the collectives and the steps that it had made then."""

    def __init__(self) -> None:
        """Begin with a rank that does not wait."""
        self.spot = Spot("", "", False)
        self.progress: tuple[int | None, int] = (0, 0)
        self.since = self.used = self.seconds = 0.0

    def note(self, spot: Spot, progress: tuple[int | None, int], now: float, used: float) -> None:
        """Take what a look has found; used: the seconds of processors that this process has taken."""
        computes = spot.doing == PASS and used - self.used > BUSY * BEAT
        if not spot.waits or computes or (spot, progress) != (self.spot, self.progress):
            self.since = now
        self.spot, self.progress, self.used, self.seconds = spot, progress, used, now - self.since


class Watch:
    """The thread that looks at the main one, says where that is, and answers who asks for stacks."""

    def __init__(self, environ: Mapping[str, str], main: int) -> None:
        """Make the file and the pipe, and start; main: the number of the thread that runs the script."""
        self.environ, self.main, self.pid = environ, main, os.getpid()
        self.asked, self.ask = os.pipe()
        self.answer = os.memfd_create(f"{NAME}-{self.pid}-{self.ask}")
        self.ranks: Ranks | None = None
        self.gone = False
        self.wait, self.beat, self.waits, self.said = Wait(), 0, 0, 0.0
        self.idle = False
        self.thread = threading.Thread(target=self.run, name="multinode.waits", daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Look and answer until told to end."""
        poll, due = select.poll(), time.monotonic() + BEAT
        poll.register(self.asked, select.POLLIN)
        while True:
            if poll.poll(max(0.0, due - time.monotonic()) * 1000):
                if END in os.read(self.asked, 4096):
                    return
                with contextlib.suppress(Exception):  # whoever has asked is told that nothing came
                    self.tell_stacks()
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT
                self.look()

    def tell_stacks(self) -> None:
        """Write where this rank is, and the stacks of its threads."""
        spot = locate(sys._current_frames().get(self.main))
        place = f"rank {self.environ.get('RANK')} is at {spot.text}, process {self.pid}"
        lines = [place, *list_stacks(threading.get_ident())]
        os.pwrite(self.answer, "\n".join(lines).encode(errors="backslashreplace") + DONE, 0)

    def has_store(self) -> bool:
        """Return whether the store may be there: that of a group ends with rank 0, and that of an agent after all."""
        return bool(read_job(self.environ) or sys.modules[DISTRIBUTED].is_initialized())

    def look(self) -> None:
        """Say where this rank is; a store that has gone is asked no more: torch prints a backtrace for it."""
        steps = sum(training.steps for state in KNOWN for training in list(state.trainings))
        spot = locate(sys._current_frames().get(self.main))
        self.wait.note(spot, (count_exchanges(sys.modules), steps), time.monotonic(), time.process_time())
        self.beat += 1
        if self.idle != (self.wait.seconds >= IDLE_AFTER):
            self.idle = not self.idle
            leave_word(self.environ, f"at {spot.text}" if self.idle else "")
        try:
            if self.ranks is None and not self.gone:
                self.ranks = find_ranks(self.environ)
            if self.ranks is not None and self.has_store():
                self.compare(self.ranks)
        except Exception:
            self.ranks, self.gone = None, True

    def compare(self, ranks: Ranks) -> None:
        """Tell the others; rank 0 prints who waits, once for each wait and again when that has become much longer."""
        before = ranks.read.get(ranks.rank)
        ranks.write(Sign(self.beat, self.wait.spot.place, self.wait.spot.doing, self.wait.seconds))
        if self.wait.seconds >= LONG and (before is None or before.waited < LONG):
            ranks.count(1)
        if ranks.rank:
            return
        waits, before_all = ranks.count(0), self.waits
        self.waits = waits
        if waits == before_all and not self.said and self.wait.seconds < LONG / 2:
            return
        ranks.look()
        longest = max(sign.waited for sign in ranks.read.values())
        if longest < LONG:
            self.said = 0.0
        elif longest >= self.said * LATER:
            self.said = longest
            print(f"multinode: {ranks.describe(range(ranks.size))}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """End the thread, unless a store holds it, and say that this rank has ended."""
        os.write(self.ask, END)
        self.thread.join(1.0)
        leave_word(self.environ, ENDED)
        if self.ranks is not None and not self.thread.is_alive() and read_job(self.environ):
            self.ranks.write(Sign(self.beat, "", ENDED, 0.0))


def leave_word(environ: Mapping[str, str], text: str) -> None:
    """Tell what has started this rank where it waits for others, or that it has ended; empty: it works."""
    path = os.path.join(environ.get(WORD, ""), f"{IDLE}{environ.get('RANK', '')}")
    with contextlib.suppress(OSError):
        if not environ.get(WORD):
            return
        if not text:
            os.unlink(path)
            return
        with open(path, "w") as file:
            file.write(text)


def find_job(environ: Mapping[str, str]) -> Job | None:
    """Return this rank's place and where its job has a store: that of torchrun's agent, or of the group that is there.

    None where no group has formed.
    """
    job, distributed = read_job(environ), sys.modules.get(DISTRIBUTED)
    if job is not None or distributed is None or not distributed.is_initialized():
        return job
    where, attempt = find_store(distributed, environ), environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Job(distributed.get_rank(), distributed.get_world_size(), *where, attempt) if where else None


def find_ranks(environ: Mapping[str, str]) -> Ranks | None:
    """Return what the ranks of this job say of themselves; None where nobody can be asked."""
    job = find_job(environ)
    if job is None or job.size == 1:
        return None
    return Ranks(connect(job.host, job.port), f"multinode/{job.attempt}/{job.size}/where", job.rank, job.size)


def watch_waits(module: Any) -> None:
    """Look from now on at where this process is, if it is a rank; module: torch.distributed.distributed_c10d."""
    if os.environ.get("RANK") and os.environ.get(TRAINING) == str(os.getpid()) and not WATCHING:
        with contextlib.suppress(RuntimeError, OSError):  # of a limit, or a kernel without such files
            WATCHING.append(Watch(os.environ, threading.main_thread().ident or 0))


def find_watch() -> Watch | None:
    """Return what watches this process; None in one that was forked from it."""
    return next((watch for watch in WATCHING if watch.pid == os.getpid()), None)


def describe_others(seconds: float = BEAT + 1) -> str:
    """Return where the other ranks are now; empty where nobody knows. Of each a new sign is waited for."""
    watch = find_watch()
    if watch is None or watch.ranks is None:
        return ""
    try:
        watch.ranks.look_again(seconds)
        return watch.ranks.describe([rank for rank in range(watch.ranks.size) if rank != watch.ranks.rank], seconds)
    except Exception:  # the store has gone
        return ""


def stop() -> None:
    """Say that this rank ends, and end its thread."""
    watch = find_watch()
    if watch is not None:
        with contextlib.suppress(Exception):
            watch.stop()
