"""How the table of versions becomes newer."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from images.context import Context
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import index_pages
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from scripts import program, update_versions
from scripts.versions import package_index, resolvable
from scripts.versions.package_index import File, Releases, newest, yanked
from scripts.versions.resolvable import Outcome
from tests.support.web import Reply, answered

TEXT = catalog.TABLE.read_text()


def wheel(name: str, day: str, yanked: str | None = None) -> File:
    return File(f"{name}-manylinux_2_28_x86_64.whl", datetime.date.fromisoformat(day), yanked)


WINDOWS = File("torch-2.99.0-cp311-cp311-win_amd64.whl", datetime.date(2026, 12, 1), None)
SDIST = File("torch-2.99.0.tar.gz", datetime.date(2026, 12, 1), None)


def index(**releases: Any) -> dict[str, Releases]:
    intel = {"impi-rt": {"2021.19.0": [wheel("impi", "2026-10-16")], "2022.0.0": [wheel("impi", "2027-01-01")]}}
    intel["intel-openmp"] = {"2026.2.0": [wheel("o", "2026-10-16")], "2026.3.0": [wheel("o", "2026-10-17", "broken")]}
    every = {"torch": {}, "transformers": {}, **intel, **releases}
    return {name: {Version(text): files for text, files in days.items()} for name, days in every.items()}


def added(proposal: str) -> list[str]:
    lines = update_versions.diff(TEXT, proposal, "versions.toml").splitlines()
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("project", "releases", "expected"),
    [
        (
            "transformers",
            {
                "99.0.0": [wheel("t", "2026-11-20")],
                "4.46.99": [wheel("t", "2026-11-20")],
                "1!1.0": [wheel("t", "2026-11-20")],
                "5.22.1": [wheel("t", "2026-10-30", 'a "bad" one')],
                # what the table has, and what is older than its first
                "5.23.0": [wheel("t", "2026-11-13")],
                "4.29.0": [wheel("t", "2023-05-10")],
            },
            [
                '+"99.0.0" = 2026-11-20',
                '+"4.46.99" = 2026-11-20',
                '+"1!1.0" = 2026-11-20',
                '-"5.22.1" = 2026-10-30',
                '+"5.22.1" = { released = 2026-10-30, reason = "a \\"bad\\" one" }',
            ],
        ),
        (
            "torch",
            {
                "2.15.98": [wheel("torch-2.15.98-cp311-cp311", "2026-11-19")],
                "2.7.99": [wheel("torch-2.7.99-cp311-cp311", "2026-11-19")],
                # withdrawn, or without wheels for Linux
                "2.15.99": [wheel("torch-2.15.99-cp311-cp311", "2026-11-19", "broken")],
                "2.15.97": [WINDOWS],
                "2.99.0": [WINDOWS, SDIST],
            },
            [
                '+"2.15.98" = { released = 2026-11-19, impi = "2021.19.0", openmp = "2026.2.0" }',
                '+"2.7.99" = { released = 2026-11-19, bindings = "2.7.0", ipex = "2.7.0", '
                'impi = "2021.19.0", openmp = "2026.2.0" }',
            ],
        ),
    ],
)
def test_rows_are_proposed(project: str, releases: Any, expected: list[str], tmp_path: Path) -> None:
    proposal = update_versions.proposed(TEXT, index(**{project: releases}))

    assert sorted(added(proposal)) == sorted(expected)
    path = tmp_path / "versions.toml"
    path.write_text(proposal)
    catalog.load(path)


def test_a_new_line_of_torch_gets_its_table(tmp_path: Path) -> None:
    files = [wheel(f"torch-2.99.0-cp3{minor}-cp3{minor}", "2026-12-01") for minor in (12, 13)]
    path = tmp_path / "versions.toml"

    path.write_text(update_versions.proposed(TEXT, index(torch={"2.99.0": files})))

    row = max(catalog.load(path).torch.values(), key=lambda row: row.version)
    assert (str(row.version), row.python, row.backend) == ("2.99.0", ("3.12", "3.13"), "gloo")
    assert row.intel == ("impi-rt==2021.19.0", "intel-openmp==2026.2.0")


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (
            {
                "2.99.0": [WINDOWS],
                "2.13.0": [wheel("t", "2026-07-08", "bad")],
                "1.9.0": [WINDOWS],
                "2.15.99": [wheel("t", "2026-11-19", "bad")],
            },
            [
                "torch 2.99.0 has no wheels for Linux yet: its row comes when they are there",
                "torch 2.13.0 is withdrawn (bad): its row stays until it is removed by hand",
            ],
        ),
        ({"2.13.0": [wheel("t", "2026-07-08", "bad"), SDIST]}, []),
    ],
)
def test_what_of_torch_changes_no_row_is_said(releases: Any, expected: list[str]) -> None:
    known = index(torch=releases)

    assert list(update_versions.notes(TEXT, known["torch"])) == expected
    assert added(update_versions.proposed(TEXT, known)) == []


DAY = datetime.date(2030, 1, 2)
WHEEL = "torch-9.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [(["broken"], "broken"), (["broken", "old"], "broken"), (["broken", None], None), ([None], None)],
)
def test_a_release_is_withdrawn_with_its_last_file(reasons: list[str | None], said: str | None) -> None:
    assert yanked([File(WHEEL, DAY, reason) for reason in reasons]) == said


@pytest.mark.parametrize(("days", "version"), [(0, "9.0"), (1, "9.1"), (9, "9.1")])
def test_the_newest_release_is_of_the_day_itself_or_before(days: int, version: str) -> None:
    after = [DAY + datetime.timedelta(days=number) for number in range(4)]
    chosen = {
        Version("9.0"): [File(WHEEL, after[0], None)],
        Version("9.1"): [File(WHEEL, after[2], None), File(WHEEL, after[1], None)],
        Version("9.2"): [File(WHEEL, after[0], "broken")],
        Version("9.3"): [File("torch-9.3-cp311-cp311-win_amd64.whl", after[0], None)],
    }

    assert newest({"torch": chosen}, "torch", DAY + datetime.timedelta(days=days)) == Version(version)


TABLE = catalog.load()
PLANS = resolvable.chosen(TABLE)
CCL = planner.make_plan(Request(torch="2.4.0", transformers="4.46.3", base="debian"), TABLE)
NOTHING = UserFault("no set of packages fits", "six>=99 cannot be had", "another")
NO_INDEX = WorldFault("cannot reach a package index", "https://index.example/simple/six/", "a proxy")


def asked(torch: str) -> list[tuple[str, str, str]]:
    """List the transformers, base and backend of the rows of a torch."""
    rows = [plan for plan in PLANS if plan.torch == torch]
    return [(plan.transformers, plan.base, plan.backend) for plan in rows]


def test_every_release_of_torch_and_both_ends_of_every_range_are_asked() -> None:
    ranges: dict[str, list[Version]] = {}
    for version, row in sorted(TABLE.transformers.items()):
        if row.yanked is None:
            ranges.setdefault(row.era, []).append(version)

    assert {Version(plan.torch) for plan in PLANS} == set(TABLE.torch)
    ends = {end for span in ranges.values() for end in (span[0], span[-1])}
    assert ends <= {Version(plan.transformers) for plan in PLANS}
    assert all(TABLE.transformers[Version(plan.transformers)].yanked is None for plan in PLANS)


def test_every_range_is_asked_with_every_line_of_torch_that_it_goes_with() -> None:
    row = next(row for row in TABLE.transformers.values() if row.era == "4.52")  # requires torch >=2.1,<2.7

    lines = {
        Version(plan.torch).release[:2]
        for plan in PLANS
        if TABLE.transformers[Version(plan.transformers)].era == row.era
    }

    assert lines == {(2, minor) for minor in range(1, 7)}


@pytest.mark.parametrize(
    ("torch", "row"),
    [
        ("2.4.0", ("4.30.0", "intel", "ccl")),
        ("2.4.0", ("4.30.0", "debian", "ccl")),
        ("2.4.0", ("5.14.1", "intel", "gloo")),
        ("2.4.1", ("5.14.1", "debian", "gloo")),
        ("1.13.1", ("4.30.0", "debian", "gloo")),
        ("1.13.1", ("4.47.1", "IMAGE", "ccl")),
        ("1.12.1", ("4.47.1", "IMAGE", "ccl")),
        ("2.15.0", ("5.24.0", "debian", "gloo")),
    ],
)
def test_every_base_of_a_torch_is_asked(torch: str, row: tuple[str, str, str]) -> None:
    assert row in asked(torch)


@pytest.mark.parametrize(
    ("faults", "code", "said"),
    [
        ([], 0, "0 rows: 0 ok, 0 fail, 0 not asked"),
        ([None, None], 0, "2 rows: 2 ok, 0 fail, 0 not asked"),
        ([None, NO_INDEX], 1, "2 rows: 1 ok, 0 fail, 1 not asked"),
        ([NOTHING, None, NO_INDEX], 2, "3 rows: 1 ok, 1 fail, 1 not asked"),
    ],
)
def test_a_row_that_fails_decides_before_one_that_was_not_asked(
    faults: list[Fault | None], code: int, said: str
) -> None:
    outcomes = [Outcome(CCL, fault=fault) for fault in faults]

    assert (resolvable.exit_code(outcomes), resolvable.summary(outcomes)) == (code, said)


def listed(name: str, day: str | None = "2026-11-20T10:00:00Z", **fields: object) -> dict[str, object]:
    return {"filename": name, "url": name, "hashes": {}, **({"upload-time": day} if day else {}), **fields}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            [listed("a-0.9x.tar.gz"), listed("a-1.0.tar.gz"), listed("a-2.0rc1.tar.gz"),
             listed("a-1.0-py3-none-any.whl", "2026-11-21T00:00:00Z"), listed("a-0.8.tar.gz", yanked=True),
             listed("a-0.7.tar.gz", yanked=" it broke "), listed("a-0.6.tar.gz", yanked=False)],
            {"1.0": [("a-1.0.tar.gz", 20, None), ("a-1.0-py3-none-any.whl", 21, None)],
             "0.8": [("a-0.8.tar.gz", 20, "no reason given")], "0.7": [("a-0.7.tar.gz", 20, "it broke")],
             "0.6": [("a-0.6.tar.gz", 20, None)]},
        ),
        ([listed("a-1.0.tar.gz", None)], "does not say when"),
        ([listed("a-1.0rc1.tar.gz")], "names no file of a release"),
        ([], "names no file of a release"),
        (404, "no such project"),
        ("{", "Expecting property name"),
        ("{}", "cannot read releases from the index"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("typed", "configured"), [("https://host/simple/", None), (None, "https://host/simple")])
def test_releases_are_those_that_are_final_with_the_day_of_each_file(
    files: Any, expected: Any, typed: str | None, configured: str | None
) -> None:
    whole = json.dumps({"meta": {"api-version": "1.1"}, "name": "a", "files": files})
    text = files if isinstance(files, str) else whole
    reply = Reply(files if files == 404 else 200, text.encode(), {"Content-Type": index_pages.JSON})
    with answered(lambda _: reply) as asked:
        if isinstance(expected, str):
            with pytest.raises(WorldFault, match=expected):
                package_index.releases("A", typed, Sources(index=configured or "https://other"))
        else:
            known = package_index.releases("A", typed, Sources(index=configured or "https://other"))
            assert {str(version): [(file.name, file.day.day, file.yanked) for file in there]
                    for version, there in known.items()} == expected  # fmt: skip
    assert [request.target for request in asked] == ["https://host/simple/a/"]


@pytest.mark.parametrize(
    ("text", "said"), [('<a href="a-1.0.tar.gz">a</a>', "does not say when"), ("<html>Log in</html>", "names no file")]
)
def test_a_page_in_html_has_no_days(text: str, said: str) -> None:
    reply = Reply(200, text.encode(), {"Content-Type": "text/html"})
    with answered(lambda _: reply), pytest.raises(WorldFault, match=said):
        package_index.releases("a", None, Sources(index="https://host/simple"))


@pytest.mark.parametrize(
    ("words", "code", "writes", "said"),
    [
        ([], 0, False, "a note"), (["--write"], 0, True, "a note"), (["--index", ""], 2, False, "not an address"),
        (["--index", "ftp://host"], 2, False, "not an address"),
        (["--check", "--jobs", "0"], 2, False, "that many jobs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("changes", [True, False])
def test_a_change_of_the_table_is_printed_and_made_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int,
    writes: bool, said: str, changes: bool,
) -> None:  # fmt: skip
    table = tmp_path / "versions.toml"
    table.write_text(TEXT)
    asked = list[str]()

    def releases(name: str, *_: object) -> Releases:
        asked.append(name)
        return {}

    monkeypatch.setattr(package_index, "releases", releases)
    monkeypatch.setattr(update_versions, "proposed", lambda text, _: f"{text}# new\n" if changes else text)
    monkeypatch.setattr(update_versions, "notes", lambda *_: ["a note"])

    assert update_versions.main(["--table", str(table), *words], {"HOME": str(tmp_path)}) == code
    out = capsys.readouterr()
    assert table.read_text() == (f"{TEXT}# new\n" if writes and changes else TEXT)
    assert said in out.err and ("+# new" in out.out) is (changes and not code)
    assert ("nothing new" in out.err) is (not changes and not code)
    assert asked == ([*update_versions.NAMES] if not code else [])


@pytest.mark.parametrize("index", [None, "https://host/simple"])
def test_rows_are_resolved_from_the_index_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], index: str | None
) -> None:
    asked = list[object]()

    def resolve(plans: object, context: Context, jobs: int) -> list[Any]:
        asked.append((context.sources.index, jobs))
        return []

    monkeypatch.setattr(resolvable, "outcomes", resolve)
    monkeypatch.setattr(resolvable, "summary", lambda _: "a summary")
    monkeypatch.setattr(resolvable, "exit_code", lambda _: 7)
    words = ["--check", "--jobs", "2", *(["--index", index] if index else [])]

    environ = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    assert update_versions.main(words, environ) == 7
    assert asked == [(index, 2)] and capsys.readouterr().err == "a summary\n"


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [(None, 5, ""), (UserFault("a", "b", "c"), 2, "a"), (KeyboardInterrupt(), 130, "interrupted"),
     (OSError(28, "No space left on device", "/a"), 1, "No space left")],
)  # fmt: skip
def test_a_program_of_ours_ends_with_the_code_of_what_failed(
    capsys: pytest.CaptureFixture[str], fault: BaseException | None, code: int, said: str
) -> None:
    def run() -> int:
        if fault:
            raise fault
        return 5

    assert program.ended(run) == code
    err = capsys.readouterr().err
    assert said in err and bool(err) is bool(said)
