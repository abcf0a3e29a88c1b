"""What apt is given and how its answer is read; apt itself is in tests/integration."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from images.debs import apt, apt_get
from images.debs.apt import SIGNED, Deb, chosen, missing, unsigned
from images.host import process
from images.host.context import Context
from images.host.disk.faults import Unwritable
from images.host.errors import WorldFault
from images.host.progress import Progress
from images.host.store import Store, sha256
from tests.support import locks

HASH = "5a" * 32
Choose = Callable[[str, Sequence[str], Context], apt.Choice | tuple[Deb, ...]]


def line(file: str, digest: str = f"SHA256:{HASH}") -> str:
    return f"'http://mirror/debian/pool/main/x/{file}' {file} 37596 {digest}"


def test_apts_choice_is_read_and_ordered() -> None:
    printed = line("tini_0.19.0-1_amd64.deb") + "\n" + line("openssh-client_1%3a9.2p1-2+deb12u7_amd64.deb") + "\n"

    assert chosen(printed) == (
        Deb("openssh-client", "1:9.2p1-2+deb12u7", "amd64", "openssh-client_1%3a9.2p1-2+deb12u7_amd64.deb", HASH),
        Deb("tini", "0.19.0-1", "amd64", "tini_0.19.0-1_amd64.deb", HASH),
    )


@pytest.mark.parametrize(
    "printed",
    [
        line("tini_0.19.0-1_amd64.deb", "MD5Sum:8e7e741807b1e1939df8f58323affdcb"),
        line("tini_0.19.0-1_amd64.deb", "SHA256:5a"),
        line("tini.deb"),
        "Reading package lists...",
    ],
)
def test_another_answer_is_refused(printed: str) -> None:
    with pytest.raises(WorldFault) as fault:
        chosen(printed)
    assert fault.value.value == printed


@given(st.text())
def test_any_answer_is_read_or_refused(printed: str) -> None:
    try:
        found = chosen(printed)
    except WorldFault:
        return
    assert list(found) == sorted(found)


def test_a_damaged_package_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (tmp_path / "a.deb").write_bytes(b"a")
    good = Deb("a", "1", "all", "a.deb", sha256(tmp_path / "a.deb"))
    never = Deb("b", "1", "all", "b.deb", HASH)
    kept = store.keep(tmp_path / "a.deb", good.sha256, good.filename)

    assert missing(store, [good, never]) == [never]
    kept.write_bytes(b"damaged")
    assert missing(store, [good, never]) == [good, never]


CLEAR = "E: GPG error: http://mirror bookworm InRelease: The following signatures "


@pytest.mark.parametrize(
    ("err", "is_refused"),
    [
        ("E: Failed to fetch http://mirror/InRelease  Could not resolve 'mirror'", False),
        ("E: The repository 'http://mirror bookworm Release' does not have a Release file.", False),
        ("E: Failed to fetch http://mirror/Packages.xz  Hash Sum mismatch", False),
        (CLEAR + "were invalid: BADSIG 0E98404D386FA1D9 Debian Archive Automatic Signing Key", True),
        (CLEAR + "couldn't be verified because the public key is not available: NO_PUBKEY 0E98404D386FA1D9", True),
        (CLEAR + "were invalid: EXPKEYSIG 0E98404D386FA1D9 Debian Archive Automatic Signing Key", True),
        ("E: The repository 'http://mirror bookworm InRelease' is not signed.", True),
        ("E: OpenPGP signature verification failed: http://mirror: Sub-process sqv returned an error code (1)", True),
    ],
)
def test_an_older_choice_is_taken_aloud_and_never_for_a_bad_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], err: str, is_refused: bool
) -> None:
    (tmp_path / "x.deb").write_bytes(b"x")
    digest = sha256(tmp_path / "x.deb")
    said = {"update": ""}

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        answers = {
            "--print-uris": line("x_1_all.deb", f"SHA256:{digest}"),
            "indextargets": "$(ORIGIN)\t$(CODENAME)\tsuite\thttp://main/\n",
        }
        if "update" in command and said["update"]:
            return process.Result(100, "", said["update"])
        return process.Result(0, next((text for word, text in answers.items() if word in command), ""), "")

    context = replace(locks.context(Store(tmp_path / "store"), None, {}), progress=Progress(Console(stderr=True)))
    context.store.keep(tmp_path / "x.deb", digest, "x_1_all.deb")
    monkeypatch.setattr(process, "run", run)
    first = apt.named("suite", ("x",), context)
    said["update"] = err
    tomorrow = replace(context, today=context.today + datetime.timedelta(days=1))

    if is_refused:
        with pytest.raises(apt_get.Unverified) as caught:
            apt.named("suite", ("x",), tomorrow)
        assert caught.value.value == err
    else:
        assert apt.named("suite", ("x",), tomorrow) == first
        assert capsys.readouterr().err.startswith(f"note: Debian's packages as of {context.today}: ")


MINE = "$(ORIGIN)\t$(CODENAME)\tsuite\thttp://mine/debian/\n"
AWAY = "E: Could not resolve 'debian'"
USUAL = "SOURCE: deb http://debian suite main\n"


@pytest.mark.parametrize(
    ("own", "err", "asked", "note"),
    [
        ("", AWAY, ["http://debian"], ""),
        (MINE.replace("mine/debian", "debian"), AWAY, ["http://debian"], ""),
        (MINE, AWAY, ["http://debian", "http://mine/debian/"], "note: Debian's own mirror does not answer; its "),
        (MINE, f"{CLEAR}were invalid: BADSIG 0E98404D386FA1D9", ["http://debian"], ""),  # it did answer
    ],
)
@pytest.mark.parametrize("choose", [apt.resolve, apt.named])
def test_where_debian_cannot_be_reached_the_machines_own_mirror_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: str, err: str,
    asked: list[str], note: str, choose: Choose,
) -> None:  # fmt: skip
    found: list[str] = []

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        if command[0] == "mmdebstrap":
            return process.Result(1, "", USUAL)
        if "update" in command:
            place = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
            found.append(Path(place).with_name("sources.list").read_text().split()[2])
            return process.Result(100 if found[-1] == "http://debian" else 0, "", err)
        return process.Result(0, own if "indextargets" in command else "", "")

    context = replace(locks.context(Store(tmp_path / "store"), None, {}), progress=Progress(Console(stderr=True)))
    monkeypatch.setattr(process, "run", run)

    if note:
        chosen = choose("suite", ("x",), context)
        assert isinstance(chosen, tuple) or chosen.sources == "deb http://debian suite main\n"
    else:
        with pytest.raises(WorldFault, match=r"could not choose|has no good signature"):
            choose("suite", ("x",), context)

    assert found == asked
    assert capsys.readouterr().err.startswith(note)


@pytest.mark.parametrize(
    ("usual", "own", "asked"),
    [
        (USUAL, MINE, "http://debian"),
        ("", MINE, "http://mine/debian/"),  # a machine without mmdebstrap
        ("", "", None),
    ],
)
def test_single_packages_come_from_debians_own_mirror_where_somebody_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: str, own: str, asked: str | None
) -> None:
    """Everybody who reaches it gets the same image, on whatever base."""
    found: list[str] = []

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        if command[0] == "mmdebstrap":
            return process.Result(1, "", usual)
        if "update" in command:
            place = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
            found.append(Path(place).with_name("sources.list").read_text().split()[2])
        return process.Result(0, own if "indextargets" in command else "", "")

    monkeypatch.setattr(process, "run", run)
    with nullcontext() if asked else pytest.raises(WorldFault, match="mmdebstrap does not know that suite"):
        assert apt.named("suite", ("x",), locks.context(Store(tmp_path / "store"), None, {})) == ()
    assert found == ([asked] if asked else [])


@pytest.mark.parametrize("is_back", [False, True])
def test_a_choice_from_the_machines_own_mirror_is_looked_at_again_the_same_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_back: bool
) -> None:
    found: list[str] = []
    reachable = {"http://mine/debian/"}

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        if command[0] == "mmdebstrap":
            return process.Result(1, "", USUAL)
        if "update" in command:
            place = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
            address = Path(place).with_name("sources.list").read_text().split()[2]
            found.append(f"{address} briefly" if "--option=Acquire::Retries=0" in command else address)
            return process.Result(0 if address in reachable else 100, "", AWAY)
        return process.Result(0, MINE if "indextargets" in command else "", "")

    context = replace(locks.context(Store(tmp_path / "store"), None, {}), progress=Progress(Console(stderr=True)))
    monkeypatch.setattr(process, "run", run)
    first = apt.resolve("suite", ("x",), context)
    assert first.elsewhere == "http://mine/debian"
    capsys.readouterr()
    found.clear()
    if is_back:
        reachable.add("http://debian")

    second = apt.resolve("suite", ("x",), context)

    if is_back:
        assert (second.elsewhere, found) == ("", ["http://debian briefly", "http://debian"])
        assert apt.resolve("suite", ("x",), context) == second and len(found) == 2
        assert capsys.readouterr().err == ""
    else:
        assert (second, found) == (first, ["http://debian briefly"])
        assert capsys.readouterr().err.startswith("note: Debian's own mirror does not answer; its packages come from")


@pytest.mark.parametrize("known", [False, True])
def test_a_full_disk_is_no_mirror_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    asked: list[Sequence[str]] = []
    err = "" if known else "E: Write error - write (28: No space left on device)"

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        if command[0] == "mmdebstrap":
            return process.Result(1, "", USUAL)
        if "update" in command:
            asked.append(command)
            return process.Result(100 if err else 0, "", err)
        return process.Result(0, MINE if "indextargets" in command else "", "")

    context = replace(locks.context(Store(tmp_path / "store"), None, {}), progress=Progress(Console(stderr=True)))
    monkeypatch.setattr(process, "run", run)
    if known:  # yesterday's choice is not taken either
        apt.resolve("suite", ("x",), context)
        err, asked = "E: Write error - write (28: No space left on device)", []
        context = replace(context, today=context.today + datetime.timedelta(days=1))

    with pytest.raises(Unwritable, match="cannot write to the store"):
        apt.resolve("suite", ("x",), context)
    assert len(asked) == 1 and capsys.readouterr().err == ""


@pytest.mark.parametrize("left", [b"another package", b""])
def test_a_package_that_is_not_the_one_that_apt_chose_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        if left and "--download-only" in command:
            place = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
            (Path(place).parent / apt_get.ARCHIVES / "x_1_all.deb").write_bytes(left)
        answers = {"--print-uris": line("x_1_all.deb"), "indextargets": MINE}
        return process.Result(0, next((text for word, text in answers.items() if word in command), ""), "")

    monkeypatch.setattr(process, "run", run)
    context = locks.context(Store(tmp_path / "store"), None, {})

    with pytest.raises(WorldFault, match=r"apt did not download what it chose: x_1_all\.deb"):
        apt.named("suite", ("x",), context)
    assert not (tmp_path / "store/blobs").exists()


def test_what_an_index_had_is_remembered(tmp_path: Path) -> None:
    store, known, other = Store(tmp_path), Deb("a", "1", "all", "a.deb", HASH), Deb("a", "1", "all", "a.deb", "f" * 64)
    store.write_record(SIGNED, known.sha256, known.filename)

    assert unsigned(store, [known, other]) == [other]


def test_no_name_is_an_option_of_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], *_: object, **__: object) -> process.Result:
        ran.append(command)
        return process.Result(1, "", USUAL) if command[0] == "mmdebstrap" else process.Result(0, "", "")

    monkeypatch.setattr(process, "run", run)
    context = locks.context(Store(tmp_path / "store"), None, {})
    apt.named("suite", ("-x",), context)
    apt.resolve("suite", ("-x",), context)

    asked = [command for command in ran if "-x" in command]
    assert [command[command.index("--") - 1] for command in asked] == ["download", "install"]
    assert all(command.index("--") < command.index("-x") for command in asked)
