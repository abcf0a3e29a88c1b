"""What is said when uv resolved nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.lock import uv_errors
from images.plan import catalog, planner
from images.plan.request import Request
from images.servers.pip_config import Sources

PLAN = planner.make_plan(Request(), catalog.load())
SOURCES = Sources(index="https://me:secret@mirror/simple")


def fault(told: str) -> Fault:
    return uv_errors.explain(told, PLAN, SOURCES, Path("/store"))


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
    ("told", "value"),
    [
        (f"error: Failed to fetch: {PAGE}", PAGE),
        (SENT, f"{PAGE} (error sending request)"),
        (
            f"error: Failed to fetch: {PAGE}\n  cause: HTTP status client error (403 Forbidden) for url ({PAGE})",
            f"{PAGE} (HTTP status client error (403 Forbidden))",
        ),
        (
            f"{CONNECT}  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
            f"{PAGE} (Connection refused (os error 111))",
        ),
        (
            f"{CONNECT}  cause: invalid peer certificate: UnknownIssuer\n{HINT}",
            f"{PAGE} (invalid peer certificate: UnknownIssuer)",
        ),
    ],
)
def test_uvs_last_cause_says_why_an_index_is_not_reached(told: str, value: str) -> None:
    found = fault(told)

    assert (found.fact, found.exit_code, found.value) == ("cannot reach a package index", 1, value)
    assert "REQUESTS_CA_BUNDLE" in found.remedy and "--wheelhouse DIR" in found.remedy


@pytest.mark.parametrize(
    "said",
    ["warning: a\nended by signal 9", "exit code 3", "error: failed to write `/store/uv`: No space left (os error 28)"],
)
def test_any_other_failure_is_uvs_and_no_requirements(said: str) -> None:
    found = fault(said)

    assert (found.fact, found.exit_code) == ("uv failed", 1)
    assert found.value == " ".join(line.strip() for line in said.splitlines())


def test_wheels_for_another_python_are_the_reason_whether_the_plan_or_uv_names_them(tmp_path: Path) -> None:
    pins = (("torch", PLAN.torch), ("transformers", PLAN.transformers), ("six", "1.17.0"))
    wheels = [tmp_path / f"{name}-{version}-cp310-cp310-linux_x86_64.whl" for name, version in pins]
    for wheel in wheels:
        wheel.touch()

    with pytest.raises(UserFault, match="only for another Python") as caught:
        uv_errors.explain("No solution found: you require six==1.17.0", PLAN, SOURCES, Path("/store"), str(tmp_path))

    assert all(wheel.name in caught.value.value for wheel in wheels)


FILTERED = (
    "error: No solution found when resolving dependencies\n"
    "hint: `{name}` was filtered by `exclude-newer` to only include packages uploaded before 2026-07-09T00:00:00Z."
)

NO_DAY = "warning: `{file}` is missing an upload date, but user provided: 2026-07-09T00:00:00Z\n"


def test_an_index_without_days_is_told_from_one_with_newer_releases_only() -> None:
    undated = NO_DAY.format(file="intel_cmplr_lib_ur-2026.0.0-py2.py3-none-any.whl")

    found = fault(undated + FILTERED.format(name="intel-cmplr-lib-ur"))
    newer = fault(undated + FILTERED.format(name="six"))

    assert "does not say when" in found.fact
    assert found.value == "intel-cmplr-lib-ur (asked: https://mirror/simple)"
    assert "--lock" in found.remedy and "--wheelhouse" in found.remedy
    assert newer.fact == "no set of packages fits"
