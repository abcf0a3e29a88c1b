"""What errors of a registry mean to the user, and how skopeo is called, asked again and waited for."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.context import Access
from images.deliver import logins
from images.deliver.skopeo import Server, explain_refusal, last_message, require_skopeo
from images.host import limits, process
from images.host.errors import Fault, WorldFault
from images.host.process import Result
from images.oci.reference import Remote

LOG = 'time="2026-01-01T00:00:00Z" level={} msg="{}"'

# What Amazon's registry says of a tag, and Harbor of its quota.
ECR_KEEPS = (
    "tag invalid: The image tag '1' already exists in the 'a' repository and cannot be overwritten because the"
    " repository is immutable."
)
GAR_KEEPS = "unknown: Failed to process request due to 'a:1' configured as immutable."
HARBOR_FULL = (
    "denied: adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the"
    " configured upper limit of 10.0 MiB."
)
ROWS = (
    ("reading manifest 1 in host/a: manifest unknown: manifest unknown", "absent"),
    ("reading manifest 1 in host/a: StatusCode: 404, ", "absent"),
    ("reading manifest 1 in host/a: unauthorized: authentication required", "denied"),
    ("unable to retrieve auth token: invalid username/password: unauthorized: x", "denied"),
    ("reading manifest 1 in host/a: StatusCode: 403, <html>", "denied"),
    ("denied: requested access to the resource is denied", "denied"),
    ("denied: requested access to immutable-things is denied", "denied"),
    ("trying to reuse blob: failed to read from destination repository team/quota: 403 (Forbidden)", "denied"),
    ("reading manifest 1 in host/a: toomanyrequests: You have reached", "busy"),
    ("toomanyrequests: Quota exceeded for quota metric 'Requests per project'", "busy"),
    ("received unexpected HTTP status: 502 Bad Gateway", "otherwise"),
    ("invalid status code from registry 503 (Service Unavailable)", "otherwise"),
    ("reading manifest 1 in host/a: too many requests", "busy"),
    ("received unexpected HTTP status: 429 Too Many", "busy"),
    ("pinging container registry host: x509: certificate signed by unknown", "certificate"),
    ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
    ("remote error: tls: bad certificate", "otherwise"),
    ("tls: failed to verify certificate: expired", "certificate"),
    ('Get \\"https://host/v2/\\": Proxy Authentication Required', "otherwise"),
    ("status code from registry 407 (Proxy Authentication Required)", "otherwise"),
    ("status code 405: the operation is unsupported", "refused"),
    ("received unexpected HTTP status code 422", "refused"),
    ("status code 408: too slow", "otherwise"),
    ("http: server gave HTTP response to HTTPS client", "plain"),
    ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "plain"),
    ('pinging: Get \\"http://host/v2/\\": context deadline exceeded', "silent"),
    ("writing blob: happened during read: unexpected EOF", "otherwise"),
    ("pinging container registry host: dial tcp: connect: connection refused", "otherwise"),
    ('Get \\"https://x/unauthorized?sign=secret\\": EOF', "otherwise"),
    (f"uploading manifest 1 to host/a: {ECR_KEEPS}", "immutable"),
    (f"uploading manifest to {'a/' * 120}: {ECR_KEEPS}", "immutable"),  # more of a message is read than shown
    (f"uploading manifest 1 to host/a: {GAR_KEEPS}", "immutable"),
    ("denied: the tag is immutable", "immutable"),
    ("denied: tag immutability of the repository", "immutable"),
    (f"writing blob: {HARBOR_FULL}", "crammed"),
    ("writing blob: write /s/oci-put-blob1: no space left on device", "full"),
    ("writing blob: write /s/oci-put-blob1: disk quota exceeded", "full"),
    ("denied: Quota has been exceeded on namespace", "crammed"),
    ("denied: storage quota exceeded", "crammed"),
    ("writing blob: blob unknown to registry", "absent"),
    ("name unknown: repository name", "absent"),
    ("reading manifest 1 in host/a: repository not found", "absent"),
    ("uploading manifest to host/a: Unsupported Media Type", "form"),
    ("uploading manifest 1 to host/a: manifest invalid: manifest invalid", "form"),
)


def said(text: str) -> str:
    """Write what skopeo 1.9.3 writes on stderr, after a warning."""
    return LOG.format("warning", "Failed, retrying in 1s") + "\n" + LOG.format("fatal", text)


def meant(text: str, name: str = "host/a:1", host: str = "host") -> Fault:
    """Return what a text of skopeo means."""
    return explain_refusal(said(text), name, host)


@pytest.mark.parametrize(("text", "kind"), ROWS)
def test_an_error_becomes_three_parts(text: str, kind: str) -> None:
    fault = meant(text)

    assert fault.kind == kind
    assert fault.exit_code == (2 if kind in ("absent", "denied", "immutable") else 1)
    assert fault.value.startswith("host/a:1 (") and len(fault.value) < 330
    assert "secret" not in str(fault)
    assert fault.remedy and "{" not in fault.remedy


def test_names_and_addresses_are_no_words_of_an_error() -> None:
    host, name = "denied.example", "denied.example/not-found/unauthorized:1"
    text = f'pinging container registry {host}: Get \\"https://{host}/v2/\\": i/o timeout'

    assert meant(text, name, host).kind == "otherwise"


@pytest.mark.parametrize(
    ("err", "expected"),
    [
        (said(r"Error parsing image name \"docker://h/a:1\": reading manifest 1 in h/a: x"), "x"),
        (said(r"initializing source docker://h/a:1: pinging \"h\": one\n\ttwo"), 'pinging "h": one  two'),
        ("no log at all", "no log at all"),
        ("", "no message"),
    ],
)
def test_the_message_is_the_last_error_without_its_preamble(err: str, expected: str) -> None:
    assert last_message(err) == expected


@given(st.text() | st.text('msg="\\ \n', max_size=40))
def test_any_output_has_a_message(err: str) -> None:
    assert last_message(err)
    assert "\n" not in last_message(said(err.replace("\n", "")))


# The program itself, which is not there.

Run = Callable[..., Result]
PLAIN, SAFE = Remote("localhost:5000", "a/b", "1"), Remote("host", "a/b", "1")
OK = Result(0, "", "")


@dataclass
class Skopeo:
    """A program that says what it is told to, one after the other, and remembers how it was called."""

    says: list[Result] = field(default_factory=lambda: [OK])
    during: Callable[[Callable[[], None], Callable[[float], None]], None] = lambda tick, idle: None
    version: str = "skopeo version 1.9.3\n"
    called: list[list[str]] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)

    def __call__(
        self, command: Sequence[str], env: Mapping[str, str], _: str, out: IO[bytes] | None = None, **options: Any
    ) -> Result:
        if [*command] == ["skopeo", "--version"]:
            return Result(0, self.version, "")
        self.called.append([*command])
        self.environ = env
        self.during(options["tick"], options["idle"])
        assert out is not None
        out.write(b"answer %d" % len(self.called))
        return self.says.pop(0)


@pytest.fixture
def skopeo(monkeypatch: pytest.MonkeyPatch) -> Skopeo:
    program = Skopeo()
    monkeypatch.setattr(process, "run", program)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    monkeypatch.setattr(logins, "of_helper", lambda host, environ: None)
    return program


def server(place: Path, remote: Remote = SAFE, waited: list[float] | None = None, **options: Any) -> Server:
    access = Access(environ=options.pop("environ", {}), wait=(waited if waited is not None else []).append)
    return Server(remote, access, place, **options)


@pytest.mark.parametrize(("remote", "tls"), [(PLAIN, True), (SAFE, False)])
def test_plain_http_is_spoken_to_this_machine_alone(tmp_path: Path, skopeo: Skopeo, remote: Remote, tls: bool) -> None:
    skopeo.says = [OK] * 4
    registry = server(tmp_path, remote)
    (tmp_path / "layout").mkdir()

    registry.inspect("1")
    registry.inspect("sha256:1", "--config")
    registry.pull("sha256:2", 1, lambda: None)
    registry.push("1")

    start, place = ["skopeo", "--insecure-policy"], f"docker://{remote.host}/a/b"
    several = ["--dest-oci-accept-uncompressed-layers", "--remove-signatures", "--dest-shared-blob-dir", "shared"]
    assert skopeo.called == [
        [*start, "inspect", "--raw", *(["--tls-verify=false"] if tls else []), f"{place}:1"],
        [*start, "inspect", "--raw", "--config", *(["--tls-verify=false"] if tls else []), f"{place}@sha256:1"],
        [*start, "copy", *(["--src-tls-verify=false"] if tls else []), *several,
         f"{place}@sha256:2", "oci:layout:pulled"],
        [*start, "copy", "--all", "--preserve-digests", *(["--dest-tls-verify=false"] if tls else []),
         "oci:layout", f"{place}:1"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said_by_it", "pauses", "kind"),
    [
        ([OK], [], None),
        ([Result(1, "", said("unexpected EOF")), OK], [1.0], None),
        ([Result(1, "", said("unexpected EOF"))] * 2 + [OK], [1.0, 3.0], None),
        ([Result(1, "", said("unexpected EOF"))] * 3, [1.0, 3.0], "otherwise"),
        ([Result(1, "", said("manifest unknown"))], [], "absent"),
        ([Result(1, "", said("unexpected EOF")), Result(1, "", said("denied: x"))], [1.0], "denied"),
        ([Result(-9, "", "")] * 3, [1.0, 3.0], "otherwise"),
    ],
)
def test_what_may_help_is_tried_three_times(
    tmp_path: Path, skopeo: Skopeo, said_by_it: list[Result], pauses: list[float], kind: str | None
) -> None:
    skopeo.says, waited = [*said_by_it], list[float]()
    if kind is None:
        assert server(tmp_path, waited=waited).inspect("1") == b"answer %d" % len(said_by_it), "only the last one"
    else:
        with pytest.raises(Fault) as caught:
            server(tmp_path, waited=waited).inspect("1")
        assert caught.value.kind == kind
    assert (waited, skopeo.says) == (pauses, [])


def test_a_login_of_a_helper_is_in_a_file_of_its_own(
    tmp_path: Path, skopeo: Skopeo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "of_helper", lambda host, environ: {"auth": f"secret of {host}"})

    server(tmp_path).inspect("1")

    path = tmp_path / "auth.json"
    assert skopeo.called[0][2:5] == ["inspect", "--authfile", "auth.json"] and "secret" not in str(skopeo.called)
    assert (path.stat().st_mode & 0o777, json.loads(path.read_text())) == (
        0o600, {"auths": {"host": {"auth": "secret of host"}}}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fact"), [("denied: x", "a helper"), ("manifest unknown", "no such image"), ("", None)]
)
def test_a_login_that_cannot_be_read_matters_where_one_is_wanted(
    tmp_path: Path, skopeo: Skopeo, monkeypatch: pytest.MonkeyPatch, text: str, fact: str | None
) -> None:
    def fail(host: str, environ: Mapping[str, str]) -> None:
        raise WorldFault("a helper", "v", "r")

    monkeypatch.setattr(logins, "of_helper", fail)
    skopeo.says = [Result(1, "", said(text)) if text else OK]
    if fact is None:
        assert server(tmp_path).inspect("1")
        return
    with pytest.raises(Fault, match=fact):
        server(tmp_path).inspect("1")


def test_files_of_logins_and_certificates_are_named_whole(tmp_path: Path, skopeo: Skopeo) -> None:
    """It runs in another directory."""
    environ = {"DOCKER_CONFIG": "mine", "REGISTRY_AUTH_FILE": "", "HOME": "home"}
    server(tmp_path, environ=environ).inspect("1")

    assert skopeo.environ["DOCKER_CONFIG"] == str(Path("mine").absolute())
    assert (skopeo.environ["REGISTRY_AUTH_FILE"], skopeo.environ["HOME"]) == ("", "home")


@pytest.mark.parametrize(("idle", "is_silent"), [(9.9, False), (10.0, True), (11.0, True)])
def test_who_moves_nothing_for_so_long_is_silent(tmp_path: Path, skopeo: Skopeo, idle: float, is_silent: bool) -> None:
    skopeo.during = lambda _, refuse: refuse(idle)
    if not is_silent:
        assert server(tmp_path, patience=10.0).inspect("1")
        return
    with pytest.raises(Fault, match=f"nothing came or went for {idle:.0f} s") as caught:
        server(tmp_path, patience=10.0).inspect("1")
    assert caught.value.kind == "silent"


@pytest.mark.parametrize(
    ("size", "after", "is_late"), [(0, 9.0, False), (0, 11.0, True), (5, 14.0, False), (5, 16.0, True)]
)
def test_a_transfer_has_the_time_of_its_bytes_and_is_looked_at_meanwhile(
    tmp_path: Path, skopeo: Skopeo, monkeypatch: pytest.MonkeyPatch, size: int, after: float, is_late: bool
) -> None:
    """size: what comes in so many seconds at the least speed."""
    now, looks = [100.0], list[float]()

    def during(tick: Callable[[], None], _: object) -> None:
        for now[0] in (100.0, 100.0 + after):
            tick()

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    skopeo.during = during
    pull = server(tmp_path, patience=10.0).pull
    if is_late:
        with pytest.raises(Fault, match="have not come in"):
            pull("sha256:1", size * limits.SLOWEST, lambda: looks.append(now[0]))
    else:
        pull("sha256:1", size * limits.SLOWEST, lambda: looks.append(now[0]))
    assert looks == [100.0, 100.0 + after], "it may send more than was said, and is ended then"


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("skopeo version 1.9.0", True), ("skopeo version 1.8.9", False), ("skopeo version 1.10.0-dev", True),
        ("skopeo version 2.0", True), ("skopeo version 0.10", False), ("", False),
    ],
)  # fmt: skip
def test_an_older_skopeo_is_refused(skopeo: Skopeo, version: str, is_enough: bool) -> None:
    skopeo.version = version
    if is_enough:
        require_skopeo({}, "host/a")
        return
    with pytest.raises(WorldFault, match="too old") as caught:
        require_skopeo({}, "host/a")
    assert caught.value.value == (version or "no version")


def test_a_skopeo_that_is_not_there_is_named_with_what_it_is_for(
    skopeo: Skopeo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(WorldFault, match="not installed: host/a"):
        require_skopeo({}, "host/a")
