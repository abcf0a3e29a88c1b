"""Two jobs and one directory, with clocks that the test moves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.files import create
from entrypoint.runs import lease
from entrypoint.runs.lease import (
    EXPIRES,
    RENEW,
    TWIN,
    Clock,
    Lease,
    check_other,
    check_twin,
    make_text,
    read_lease,
    release,
    renew,
    steal,
    take,
)


class Time:
    """A clock that stands still but for those who sleep; what happens at every sleep is the other job."""

    def __init__(self, happens: Callable[[], object] = lambda: None) -> None:
        self.seconds, self.happens = 0.0, happens

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.happens()

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, self.sleep)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lease.json")


def owner(path: str) -> str:
    held = read_lease(path)
    assert held is not None
    return held.owner


def test_a_free_directory_is_taken_at_once(path: str) -> None:
    time = Time()
    assert take(path, "a", "host", time.clock, pytest.fail) is None
    assert owner(path) == "a" and time.seconds == 0


def test_a_restarted_job_has_its_lease_already(path: str) -> None:
    create(path, make_text("a", "host"))
    before, time = read_lease(path), Time()
    assert take(path, "a", "other", time.clock, pytest.fail) is not None
    assert read_lease(path) != before and owner(path) == "a" and time.seconds == 0


def test_a_job_under_the_own_name_that_renews_its_lease_keeps_it(path: str) -> None:
    create(path, make_text("a", "host-a"))
    time = Time(lambda: renew(path, "a", "host-a") if time.seconds >= RENEW else None)
    with pytest.raises(Refusal, match="another job writes") as caught:
        check_twin(path, "a", time.clock, lambda _: None)
    assert "host-a" in caught.value.value and time.seconds < EXPIRES


@pytest.mark.parametrize(("held", "seconds"), [(None, 0), ("b", 0), ("a", TWIN)])
def test_a_lease_of_the_own_name_is_watched_for_one_renewal(path: str, held: str | None, seconds: float) -> None:
    if held:
        create(path, make_text(held, "host"))
    time, said = Time(), list[str]()
    check_twin(path, "a", time.clock, said.append)
    assert time.seconds == seconds and len(said) == (seconds > 0)


@pytest.mark.parametrize("owner", ["a", "b", None])
def test_what_rank_0_may_take_stops_no_other_rank(path: str, owner: str | None) -> None:
    """A lease of the own job, one that was left behind, and none."""
    if owner:
        create(path, make_text(owner, "host"))
    time = Time()
    check_other(path, "a", time.clock)
    assert time.seconds == (EXPIRES if owner == "b" else 0)


def test_a_lease_that_rank_0_takes_meanwhile_stops_no_other_rank(path: str) -> None:
    create(path, make_text("b", "host-b"))

    def rank_0() -> None:
        if time.seconds >= EXPIRES / 2:
            Path(path).write_text("" if time.seconds < EXPIRES / 2 + 1 else make_text("a", "host-a"))

    time = Time(rank_0)
    check_other(path, "a", time.clock)
    assert time.seconds < EXPIRES


def test_every_rank_finds_the_lease_of_another_job(path: str) -> None:
    create(path, make_text("b", "host-b"))
    time = Time(lambda: renew(path, "b", "host-b") if time.seconds >= RENEW else None)
    with pytest.raises(Refusal, match="another job writes") as caught:
        check_other(path, "a", time.clock)
    assert "host-b" in caught.value.value and time.seconds < EXPIRES


def test_a_job_that_renews_its_lease_keeps_it(path: str) -> None:
    create(path, make_text("a", "host-a"))
    said: list[str] = []
    time = Time(lambda: renew(path, "a", "host-a"))

    with pytest.raises(Refusal, match="another job writes") as caught:
        take(path, "b", "host-b", time.clock, said.append)

    assert "host-a" in caught.value.value and "--output_dir ANOTHER" in caught.value.remedy
    assert owner(path) == "a" and "host-a" in said[0] and time.seconds < EXPIRES


def test_a_lease_that_was_left_behind_expires(path: str) -> None:
    create(path, make_text("a", "host"))
    time, said = Time(), list[str]()
    assert take(path, "b", "host", time.clock, said.append) is None
    assert owner(path) == "b" and EXPIRES <= time.seconds < EXPIRES + 2 and len(said) == 1


def test_a_file_system_that_stood_still_says_nothing_of_the_other_job(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that starts anew holds both jobs up; the other renews its lease when it answers again."""
    create(path, make_text("a", "host-a"))
    time = Time(lambda: renew(path, "a", "host-a") if time.seconds > 4 * EXPIRES + RENEW / 2 else None)

    def read(path: str) -> Lease | None:
        if EXPIRES / 2 < time.seconds < 4 * EXPIRES:
            time.seconds = 4 * EXPIRES
        return read_lease(path)

    monkeypatch.setattr(lease, "read_lease", read)
    with pytest.raises(Refusal, match="another job writes"):
        take(path, "b", "host-b", time.clock, lambda _: None)
    assert owner(path) == "a"


@pytest.mark.parametrize("shares", [True, False])
def test_a_lease_that_a_node_of_our_job_takes_meanwhile_is_shared(path: str, shares: bool) -> None:
    """Both waited for the end of a dead job's lease, and one was faster; two jobs of one name do not share."""
    create(path, make_text("dead", "host-d"))

    def other() -> None:
        if time.seconds >= EXPIRES / 2:
            Path(path).write_text("" if time.seconds < EXPIRES / 2 + 1 else make_text("a", "host-a"))

    time = Time(other)
    if not shares:
        with pytest.raises(Refusal, match="another job writes"):
            take(path, "a", "host-b", time.clock, lambda _: None)
        return
    held = take(path, "a", "host-b", time.clock, lambda _: None, shares=True)
    assert held is not None and (held.owner, held.host) == ("a", "host-a")


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 200_000, '{"owner": "a"', "null"])
def test_a_file_that_is_no_lease_belongs_to_somebody_unknown(path: str, text: str) -> None:
    Path(path).write_text(text)
    assert read_lease(path) == Lease("", "an unknown host", text)


def test_a_name_that_can_be_neither_made_nor_read_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(path, make_text("a", "host"))
    monkeypatch.setattr(lease, "read_lease", lambda path: None)
    assert take(path, "b", "host", Time(Path(path).unlink).clock, pytest.fail) is None


def test_a_lease_that_may_not_be_read_is_said_to_be_that(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(path, make_text("a", "host"))
    monkeypatch.setattr(lease, "read_lease", lambda path: None)
    time = Time()
    with pytest.raises(PermissionError, match="cannot be read"):
        take(path, "b", "host", time.clock, pytest.fail)
    assert time.seconds < EXPIRES + 2


def test_a_renewal_that_fails_leaves_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(path, make_text("a", "host"))
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        renew(path, "a", "host")
    assert [each.name for each in Path(path).parent.iterdir()] == ["lease.json"]


def test_a_lease_that_cannot_be_written_leaves_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may have room for a name; the next start would take it for the lease of an unknown host."""

    def open_full(name: str, *more: int, opens: Callable[..., int] = os.open) -> int:
        os.close(opens(name, *more))
        return opens("/dev/full", os.O_WRONLY)

    monkeypatch.setattr("os.open", open_full)
    with pytest.raises(OSError, match="No space left"):
        create(path, make_text("a", "host"))
    assert list(Path(path).parent.iterdir()) == []


def test_what_another_has_made_is_not_removed(path: str) -> None:
    create(path, make_text("a", "host"))
    assert not create(path, make_text("b", "host"))
    assert owner(path) == "a"


def test_a_job_that_ends_makes_room(path: str) -> None:
    create(path, make_text("a", "host"))
    time = Time(lambda: release(path, "a"))
    assert take(path, "b", "host", time.clock, lambda _: None) is None
    assert owner(path) == "b" and time.seconds < 1


def test_of_two_that_wait_one_gets_it(path: str) -> None:
    create(path, make_text("dead", "host"))
    time = Time()

    def other() -> None:
        if time.seconds >= EXPIRES - 1 and owner(path) != "c":
            Path(path).unlink()
            create(path, make_text("c", "host-c"))
        elif owner(path) == "c":
            renew(path, "c", "host-c")

    time.happens = other
    with pytest.raises(Refusal, match="another job writes"):
        take(path, "b", "host", time.clock, lambda _: None)
    assert owner(path) == "c"


def test_what_was_renewed_in_the_last_moment_is_put_back(path: str) -> None:
    create(path, make_text("a", "host"))
    held = read_lease(path)
    assert held is not None
    renew(path, "a", "host")
    steal(path, held)
    assert owner(path) == "a"
    steal(path, Lease("a", "host", "other"))
    assert owner(path) == "a" and [each.name for each in Path(path).parent.iterdir()] == ["lease.json"]


def test_what_another_took_in_the_last_moment_is_left_to_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait see a lease expire; the first has taken it, and its name is taken away and made anew."""
    create(path, make_text("b", "host-b"))

    def read(aside: str) -> Lease | None:
        create(path, make_text("c", "host-c"))
        return read_lease(aside)

    monkeypatch.setattr(lease, "read_lease", read)
    steal(path, Lease("a", "host-a", "old"))

    assert owner(path) == "c" and [each.name for each in Path(path).parent.iterdir()] == ["lease.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"owner": "a"}'])
def test_a_lease_that_is_being_written_belongs_to_somebody(path: str, text: str) -> None:
    Path(path).write_text(text)
    held = read_lease(path)
    assert held is not None and held.owner == ""
    assert not renew(path, "a", "host")


def test_only_the_own_lease_is_released(path: str) -> None:
    release(path, "a")
    create(path, make_text("a", "host"))
    release(path, "b")
    assert owner(path) == "a"
    release(path, "a")
    assert read_lease(path) is None
