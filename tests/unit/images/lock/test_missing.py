"""What is said when uv resolved nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.host.pip_config import Sources
from images.lock import missing
from images.lock.uv import TORCH_INDEX
from images.model import Plan, Request
from images.plan import catalog, planner

PLAN = planner.resolve(Request(), catalog.load())
SOURCES = Sources(index="https://me:secret@mirror/simple")


def fault(told: str) -> Fault:
    return missing.explain(told, PLAN, SOURCES, Path("/store"))


def test_an_unreachable_index_is_named_without_its_password() -> None:
    told = "error: Request failed\n  cause: Failed to fetch: `http://me:secret@host:9/simple/torch/`\n  cause: refused"

    found = fault(told)

    assert isinstance(found, WorldFault)
    assert found.value == "http://host:9/simple/torch/ (refused)"
    assert "secret" not in str(found)


PAGE = "https://mirror/simple/six/"
SENT = f"error: Failed to fetch: {PAGE}\n  cause: error sending request for url ({PAGE})"
CONNECT = f"{SENT}\n  cause: client error (Connect)\n"
HINT = "\nhint: Consider enabling use of system TLS certificates with the `--system-certs` command-line flag\n"


@pytest.mark.parametrize(
    ("told", "fact", "value"),
    [
        (f"error: Failed to fetch: {PAGE}", "cannot reach", PAGE),
        (SENT, "cannot reach", f"{PAGE} (error sending request)"),
        (
            f"{CONNECT}  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
            "cannot reach",
            f"{PAGE} (Connection refused (os error 111))",
        ),
        (
            f"{CONNECT}  cause: tcp connect error\n  cause: Permission denied (os error 13)\n",
            "cannot reach",
            f"{PAGE} (Permission denied (os error 13))",
        ),
        (
            f"{CONNECT}  cause: tcp connect error\n  cause: Operation not permitted (os error 1)\n",
            "cannot reach",
            f"{PAGE} (Operation not permitted (os error 1))",
        ),
        (
            f"{CONNECT}  cause: tunnel error: proxy authorization required\n",
            "cannot reach",
            f"{PAGE} (tunnel error: proxy authorization required)",
        ),
        (
            f"{CONNECT}  cause: invalid peer certificate: UnknownIssuer\n{HINT}",
            "not trusted",
            f"{PAGE} (invalid peer certificate: UnknownIssuer)",
        ),
    ],
)
def test_uvs_last_cause_says_why_an_index_is_not_reached(told: str, fact: str, value: str) -> None:
    found = fault(told)

    assert isinstance(found, WorldFault) and fact in found.fact
    assert found.value == value
    assert ("REQUESTS_CA_BUNDLE" in found.remedy) is (fact == "not trusted")


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_file_that_an_index_refuses_is_named_as_such(status: str) -> None:
    file = "https://mirror/files/six-1.17.0-py3-none-any.whl"
    told = f"error: Failed to fetch: {file}\n  cause: HTTP status client error ({status}) for url ({file})"

    found = fault(told)

    assert found.fact == "a server refuses the login" and found.value == f"{file} ({status[:3]})"


CCL = planner.resolve(Request(torch="2.4.0", transformers="4.46.0"), catalog.load())


@pytest.mark.parametrize(
    ("made", "place", "release"),
    [
        (PLAN, TORCH_INDEX, f"torch {PLAN.torch}"),
        (CCL, TORCH_INDEX, "torch 2.4.0"),
        (CCL, str(CCL.index), "oneccl_bind_pt 2.4.0"),
    ],
)
def test_what_only_the_last_index_has_is_named_with_the_way_out(made: Plan, place: str, release: str) -> None:
    told = f"error: Request failed after 3 retries\n  cause: Failed to fetch: {place}/numpy/\n  cause: refused"

    found = missing.explain(told, made, SOURCES, Path("/store"))

    assert isinstance(found, missing.Unreachable) and found.project == release.partition(" ")[0]
    assert found.value == f"{release}, {place} (refused)"
    assert found.remedy.startswith("--wheelhouse DIR")


def test_a_full_disk_is_the_stores() -> None:
    found = fault("error: failed to write: No space left on device (os error 28)")

    assert isinstance(found, WorldFault)
    assert found.value == "/store (No space left on device)"


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ("error: failed to create directory `/store/uv`", "/store/uv (Permission denied)"),
        ("error: Failed to read `--find-links` directory: /wheels\n  cause", "/wheels (Permission denied)"),
        ("error: Failed to download `a==1`\n  cause: failed to open file `/w/a.whl`", "/w/a.whl (Permission denied)"),
    ],
)
def test_what_is_not_allowed_is_named_by_its_path(told: str, value: str) -> None:
    found = fault(f"{told}: Permission denied (os error 13)")

    assert isinstance(found, WorldFault)
    assert found.value == value
    assert ("store" in found.fact) is value.startswith("/store")


def test_no_solution_is_the_users_to_mend() -> None:
    found = fault("error: No solution found\n  cause: Because there is no version of x==1 ...")

    assert isinstance(found, UserFault)
    assert "there is no version of x==1" in found.value


@pytest.mark.parametrize(
    "said",
    ["ended by signal 9", "warning: a\nended by signal 9", "exit code 3", "error: Could not acquire lock\n  cause: b"],
)
def test_any_other_failure_is_uvs_and_no_requirements(said: str) -> None:
    found = fault(said)

    assert (found.fact, found.exit_code) == ("uv failed", 1)
    assert found.value == " ".join(line.strip() for line in said.splitlines())


def test_a_setting_that_uv_cannot_use_is_named_as_pips() -> None:
    lines = (
        "error at line 6, column 5",
        "  |",
        '6 |     "h:",',
        "  |     ^^^^",
        "invalid port for `--trusted-host`: `h:`",
    )
    found = fault("error: Failed to parse: /dev/stdin\n  cause: TOML parse " + "\n".join(lines))

    assert isinstance(found, UserFault) and "pip's configuration" in found.fact
    assert found.value == "invalid port for `--trusted-host`: `h:`"


@pytest.mark.parametrize("place", ["mirror.invalid/simple", "file:///nonexistent/simple", "file:none", "{}/file"])
def test_an_index_that_uv_would_leave_out_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UserFault, match="neither an address nor a directory") as caught:
        missing.require_indexes("extra-index-url", ["https://host/simple", place.format(tmp_path)])

    assert caught.value.value == f"extra-index-url {place.format(tmp_path)}"
    missing.require_indexes("index-url", [str(tmp_path), tmp_path.as_uri(), "https://host/simple", "ftp://host"])


@pytest.mark.parametrize("place", ["//u:secret@host/simple", "user:pa/secret@host/simple"])
def test_an_index_with_a_login_is_named_without_it(place: str) -> None:
    with pytest.raises(UserFault, match="neither an address") as caught:
        missing.require_indexes("index-url", [place])

    assert "secret" not in str(caught.value) and "host/simple" in str(caught.value)


FILTERED = (
    "error: No solution found when resolving dependencies\n"
    "hint: `{name}` was filtered by `exclude-newer` to only include packages uploaded before 2026-07-09T00:00:00Z."
)
PACKAGES = "--wheelhouse DIR with those very files in it"
BUNDLE = "; or --offline BUNDLE with the bundle made from the lock"
SCRIPTS = "--examples PATH with a copy of that archive"
BELOW = "--base oci:DIRECTORY or archive:FILE with that base"


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (["six-1.17.0-py3-none-any.whl", "seqeval-1.2.2.tar.gz", "tini_0.19_amd64.deb"], PACKAGES),
        (["examples.tar"], SCRIPTS),
        ([f"sha256:{'0' * 64}"], BELOW),
        ([f"sha256:{'0' * 64}", "examples.tar", "tini_0.19_amd64.deb"], f"{BELOW} and {SCRIPTS} and {PACKAGES}"),
    ],
)
def test_a_file_of_a_lock_is_given_by_the_option_for_its_kind(names: list[str], remedy: str) -> None:
    assert missing.files_missing(names).remedy == remedy + BUNDLE


NO_DAY = "warning: `{file}` is missing an upload date, but user provided: 2026-07-09T00:00:00Z\n"


def test_an_index_without_days_is_told_from_one_with_newer_releases_only() -> None:
    undated = NO_DAY.format(file="intel_cmplr_lib_ur-2026.0.0-py2.py3-none-any.whl")

    found = fault(undated + FILTERED.format(name="intel-cmplr-lib-ur"))
    newer = fault(undated + FILTERED.format(name="six"))

    assert "does not say when" in found.fact
    assert found.value == "intel-cmplr-lib-ur (asked: https://mirror/simple)"
    assert "--lock" in found.remedy and "--wheelhouse" in found.remedy
    assert newer.fact == "no set of packages fits"


def test_the_wheelhouse_comes_before_uvs_words(tmp_path: Path) -> None:
    (tmp_path / "six-1.17.0-cp310-cp310-linux_x86_64.whl").write_bytes(b"PK")

    with pytest.raises(UserFault, match=r"another Python .*six-1\.17\.0-cp310"):
        missing.explain("because six==1.17.0 has no wheels.", PLAN, SOURCES, tmp_path, str(tmp_path))
