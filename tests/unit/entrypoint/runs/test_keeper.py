"""Renewals of a lease beside a training, up to the signal that ends them, or the training that has lost its lease."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from entrypoint.machine.files import create
from entrypoint.runs import keeper
from entrypoint.runs.keeper import describe_loss, end_training, find_other, has_ended, renew_until_the_end
from entrypoint.runs.lease import RENEW, make_text, read_lease

TRAINING = 4242
# SIGTERM as sigtimedwait returns it.
SENT = SimpleNamespace(si_pid=TRAINING)
# What happens between two renewals, one after the other.
Happens = Callable[[], object]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "lease.json")
    create(path, make_text("mine", "here"))
    return path


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets the events before each renewal; SIGTERM comes after the last."""

    def wait(*events: Happens) -> None:
        left = list(events)

        def sigtimedwait(numbers: list[int], seconds: float) -> object:
            assert numbers == [signal.SIGTERM] and seconds in (RENEW, 0)
            if not seconds:  # only a look
                return None
            if not left:
                return SENT
            left.pop(0)()
            return None

        monkeypatch.setattr(signal, "sigtimedwait", sigtimedwait)

    return wait


def test_a_lease_is_renewed_and_released_at_the_end(path: str, wait: Callable[..., None]) -> None:
    seen = []
    wait(*[lambda: seen.append(read_lease(path))] * 3)
    renew_until_the_end(path, "mine", "here", TRAINING)
    assert len(set(seen)) == 3 and read_lease(path) is None


@pytest.mark.parametrize(
    ("sender", "parent", "ended"),
    [
        (None, TRAINING, False),
        (TRAINING, TRAINING, True),
        (17, TRAINING, False),  # slurmstepd, before the time of a step is over: the training writes a checkpoint
        (0, TRAINING, False),  # from outside the container
        (TRAINING, 1, True),  # the kernel says that it has ended
        (17, 1, True),
    ],
)
def test_a_signal_of_another_process_does_not_end_the_lease(
    monkeypatch: pytest.MonkeyPatch, sender: int | None, parent: int, ended: bool
) -> None:
    info = None if sender is None else SimpleNamespace(si_pid=sender)
    monkeypatch.setattr(signal, "sigtimedwait", lambda numbers, seconds: info)
    monkeypatch.setattr(os, "getppid", lambda: parent)
    assert has_ended(TRAINING, 5) is ended


def test_the_first_renewal_is_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sigtimedwait(numbers: list[int], seconds: float) -> object:
        pauses.append(seconds)
        return SENT if len(pauses) == 3 else None

    monkeypatch.setattr(signal, "sigtimedwait", sigtimedwait)
    renew_until_the_end(path, "mine", "here", TRAINING)
    assert pauses == [0, RENEW, RENEW]


def test_a_job_that_has_taken_it_is_named_and_keeps_it(path: str, wait: Callable[..., None]) -> None:
    wait(lambda: Path(path).write_text(make_text("other", "node7")), lambda: pytest.fail("renewed"))
    assert renew_until_the_end(path, "mine", "here", TRAINING) == "node7"
    held = read_lease(path)
    assert held is not None and held.owner == "other"


def test_a_full_disk_is_said_once_until_it_is_mended(
    path: str, wait: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(*_: str) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")

    full: list[bool] = [True]
    monkeypatch.setattr(keeper, "find_other", find)
    wait(int, int, full.clear, lambda: full.append(True), int)
    renew_until_the_end(path, "mine", "here", TRAINING)
    said = f"multinode: the lease {path} is not renewed: No space left on device; tried again every 5 s\n"
    assert capsys.readouterr().err == said * 2


@pytest.mark.parametrize(
    ("held", "other"),
    [
        ('{"owner": "mine", "host": "here", "beat": "1"}', None),
        (None, None),
        ('{"owner": "other", "host": "node7", "beat": "1"}', "node7"),
        ('{"owner": "mi', "an unknown host"),
    ],
)
def test_a_lost_lease_is_taken_again_and_another_job_s_is_not(
    tmp_path: Path, held: str | None, other: str | None
) -> None:
    path = tmp_path / "lease.json"
    if held is not None:
        path.write_text(held)
    assert find_other(str(path), "mine", "here") == other
    found = read_lease(str(path))
    assert found is not None and (found.owner == "mine") is (other is None)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send no signals, and list them."""
    numbers: list[int] = []

    def send(process: int, number: int) -> None:
        assert process == TRAINING
        numbers.append(number)

    monkeypatch.setattr(os, "kill", send)
    return numbers


@pytest.mark.parametrize(
    ("parents", "told", "signals"),
    [
        ([TRAINING], [True], [signal.SIGTERM]),
        ([TRAINING, TRAINING], [False, False], [signal.SIGTERM, signal.SIGKILL]),
        ([1, 1], [False, False], []),  # it has ended, and its number may be another's
        ([TRAINING, 1], [False, True], [signal.SIGTERM]),
    ],
)
def test_only_the_parent_is_ended(
    sent: list[int], monkeypatch: pytest.MonkeyPatch, parents: list[int], told: list[bool], signals: list[int]
) -> None:
    said = iter(told)
    monkeypatch.setattr(os, "getppid", iter(parents).__next__)
    monkeypatch.setattr(keeper, "has_ended", lambda training, seconds: next(said))
    end_training(TRAINING)
    assert sent == signals


def test_a_training_that_is_gone_in_this_moment_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(process: int, number: int) -> None:
        raise ProcessLookupError(3, "No such process")

    monkeypatch.setattr(os, "kill", gone)
    monkeypatch.setattr(os, "getppid", lambda: TRAINING)
    monkeypatch.setattr(keeper, "has_ended", lambda training, seconds: True)
    end_training(TRAINING)


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        ([False, False], "there"),
        ([False, True], None),  # it ends in this moment, of itself
        ([True], None),
    ],
)
def test_a_training_that_ends_has_lost_nothing(
    monkeypatch: pytest.MonkeyPatch, told: list[bool], lost: str | None
) -> None:
    said = iter(told)
    monkeypatch.setattr(keeper, "has_ended", lambda training, seconds: next(said))
    monkeypatch.setattr(keeper, "find_other", lambda path, owner, host: "there")
    assert renew_until_the_end("/none/lease.json", "mine", "here", TRAINING) == lost


def test_it_is_said_who_has_the_directory() -> None:
    refusal = describe_loss("/out/lease.json", "there")
    assert refusal.value == "/out/lease.json: a job on there"
    assert "--output_dir ANOTHER" in refusal.remedy and refusal.code == 1
