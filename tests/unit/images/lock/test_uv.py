"""What uv is asked, and what is read from its answers."""

from __future__ import annotations

import dataclasses
import datetime
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from packaging.pylock import Pylock

from images.host import process
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import uv
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.catalog import TORCH_INDEX
from images.plan.plan import Plan, Request, SourceOnly
from images.platforms import ARM64
from images.store.store import Store
from tests.support import locks
from tests.support.web import Reply, answered
from tests.support.web import Request as Asked

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def question(requested: Request) -> Plan:
    return planner.make_plan(requested, catalog.load())


NEWEST, ONECCL = question(Request()), question(Request(torch="2.4.0", transformers="4.46.0"))


def resolved(name: str, version: str, place: str = "https://host") -> Pylock:
    """Return what uv says where it has found this release of one package at this place."""
    wheel = {"url": f"{place}/{name.replace('-', '_')}-{version}-py3-none-any.whl", "hashes": {"sha256": "0"}}
    package = {"name": name, "version": version, "wheels": [wheel]}
    return Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": [package]})


@pytest.mark.parametrize(
    ("name", "version", "is_for_gpu"),
    [
        ("nvidia-cublas", "13.1", True),
        ("nvidia-ml-py", "13.580", False),
        ("triton", "3.4", True),
        ("cuda-bindings", "13", True),
        ("torch", "2.13.0+cu130", True),
        ("torch", "2.13.0+cpu", False),
        ("torchvision", "0.28.0+rocm6.2", True),
        ("torch-scatter", "2.1.2+pt25cu121", True),
        ("mine", "1.0+cubes", False),
        ("triton-viz", "1", False),
    ],
)
def test_packages_for_a_gpu_are_found(name: str, version: str, is_for_gpu: bool) -> None:
    assert bool(uv.list_for_gpu(resolved(name, version), NEWEST)) is is_for_gpu


@pytest.mark.parametrize(
    ("torch", "name", "version", "place", "is_for_gpu"),
    [
        ("2.13.0+cpu", "torchvision", "0.28.0", "https://host", True),
        ("2.13.0+cpu", "torchaudio", "2.11.1", "https://host", True),
        ("2.13.0+cpu", "torchvision", "0.28.0+cpu", "https://host", False),
        ("2.13.0+cpu", "torchvision", "0.28.0", "file:///wheels", False),
        ("2.13.0+cpu", "torchmetrics", "1.9.0", "https://host", False),
        ("2.13.0", "torchvision", "0.28.0", "https://host", False),  # of one kind, whichever it is
    ],
)
def test_what_is_built_with_torch_is_of_its_kind(
    torch: str, name: str, version: str, place: str, is_for_gpu: bool
) -> None:
    both = dataclasses.replace(
        resolved("torch", torch),
        packages=[*resolved("torch", torch).packages, *resolved(name, version, place).packages],
    )
    asked = dataclasses.replace(NEWEST, requirements=(f"torch=={torch}",), user_packages=(name,))

    assert uv.list_for_gpu(both, NEWEST, "/wheels") == (
        [f"{name} {version} (without +cpu it contains CUDA)"] if is_for_gpu else []
    )
    wider = uv.with_torch_index(Sources(), "", both, asked, "/wheels")
    assert wider.extra == ((TORCH_INDEX,) if is_for_gpu else ())
    assert (f"{name}=false" in uv.options(asked, [name], wider)) is is_for_gpu  # PyTorch's index says no days


def test_what_is_in_the_users_directory_counts_whatever_else_there_is() -> None:
    places = [resolved("torchvision", "0.28.0", place).packages[0] for place in ("https://host", "file:///wheels")]
    vision = replace(places[0], wheels=[file for package in places for file in package.wheels or ()])
    torch = resolved("torch", "2.13.0+cpu")
    both = replace(torch, packages=[*torch.packages, vision])

    assert uv.list_for_gpu(both, NEWEST, "/wheels") == []


PULLED = Request(base="debian.example/a:1", python="3.9", backend="gloo")
ON_ARM64 = Request(platform=ARM64)


@pytest.mark.parametrize(
    ("wishes", "release", "place", "is_for_gpu"),
    [
        (PULLED, "1.12.1", "https://host", True),
        (PULLED, "1.10.2", "https://host", True),
        (PULLED, "1.11.0", "file:///mirror", True),
        (PULLED, "1.12.1+cpu", "https://host", False),
        (PULLED, "1.12.1", "file:///wheels", False),
        (PULLED, "1.13.1", "https://host", False),  # says it by its requirements
        (ON_ARM64, "2.10.0", "https://host", False),
        (ON_ARM64, "2.11.0", "https://host", True),
        (ON_ARM64, "2.11.0+cpu", "https://host", False),
    ],
)
def test_a_torch_without_cpu_in_its_version_may_be_for_a_gpu(
    wishes: Request, release: str, place: str, is_for_gpu: bool
) -> None:
    asked = question(dataclasses.replace(wishes, torch=release.partition("+")[0]))
    pylock = resolved("torch", release, place)

    assert bool(uv.list_for_gpu(pylock, asked, "/wheels")) is is_for_gpu
    assert uv.with_torch_index(Sources(), "", pylock, asked, "/wheels").extra == ((TORCH_INDEX,) if is_for_gpu else ())


PRIVATE = Sources(
    index="https://me:secret@mirror/simple",
    extra=("https://token@other/simple", "local/simple"),
    links=("/wheels#1", "https://me:secret@mirror/page.html"),
    trusted=("mirror",),
    certificate="/ca.pem",
    client_certificate="/me.pem",
    proxy="http://me:secret@proxy:3128",
)


def test_the_sources_of_pip_are_said_to_uv() -> None:
    row = SourceOnly(name="seqeval", version="1.2.2", requires=("numpy>=1.14.0",))
    asked = replace(NEWEST, source_only=(row,), user_packages=("peft", "six<2 --constraint"))

    assert tomllib.loads(uv.format_config(asked, PRIVATE)) == {
        "index-strategy": "unsafe-best-match",
        "no-index": False,
        "index": [
            {"url": "https://token@other/simple"},
            {"url": Path("local/simple").absolute().as_uri()},
            {"url": "https://me:secret@mirror/simple", "default": True},
        ],
        "find-links": ["file:///wheels%231", "https://me:secret@mirror/page.html"],
        "allow-insecure-host": ["mirror"],
        "constraint-dependencies": ["seqeval===1.2.2", "six<2"],
        "dependency-metadata": [{"name": "seqeval", "requires-dist": ["numpy>=1.14.0"]}],
    }


def test_no_password_is_on_uvs_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def record(command: list[str], env: dict[str, str], _: str, feed: IO[bytes]) -> process.Result:
        ran.append((command, Path(command[3]).read_text(), feed.read().decode()))
        return process.Result(1, "", "")

    monkeypatch.setattr(process, "run", record)
    with pytest.raises(WorldFault, match="uv failed"):
        uv.ask_sources(NEWEST, PRIVATE, locks.context(Store(tmp_path), PRIVATE, {}), ["six"])

    [(command, asked, settings)] = ran
    assert tomllib.loads(asked) == {
        "project": {"name": "this-image", "version": "0", "dependencies": ["six"]}, "tool": {"uv": {"workspace": {}}},
    }  # fmt: skip
    assert settings == uv.format_config(NEWEST, PRIVATE)
    assert command[1:3] + command[4:] == [
        "pip", "compile", "--config-file", "/dev/stdin", "--format", "pylock.toml",
        "--cache-dir", str(tmp_path / "uv"), "--python", sys.executable, *uv.options(NEWEST, ["six"], PRIVATE),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "place", [{"index": "http://u:secret@a/simple"}, {"extra": ("http://a/simple",)}, {"links": ("http://a/simple",)}]
)
def test_an_index_over_plain_http_is_refused(tmp_path: Path, place: dict[str, Any]) -> None:
    sources = Sources(**place)

    with pytest.raises(UserFault, match="plain HTTP") as caught:
        uv.ask_sources(NEWEST, sources, locks.context(Store(tmp_path), sources, {}), ["six"])

    assert caught.value.value == "http://a/simple" and "trusted-host" in caught.value.remedy
    Sources(**place, trusted=("a",)).refuse_insecure()


@pytest.mark.parametrize(
    ("given", "sources", "expected"),
    [
        ({"UV_CONSTRAINT": "a", "UV_INDEX": "b", "UV_OFFLINE": "1"}, Sources(), {}),
        ({"UV_HTTP_TIMEOUT": "9", "HOME": "/h"}, Sources(), {"UV_HTTP_TIMEOUT": "9", "HOME": "/h"}),
        ({"SSL_CERT_FILE": "/a", "HTTPS_PROXY": "b"}, Sources(), {"SSL_CERT_FILE": "/a", "HTTPS_PROXY": "b"}),
        ({"REQUESTS_CA_BUNDLE": "/a"}, Sources(), {"REQUESTS_CA_BUNDLE": "/a", "SSL_CERT_FILE": "/a"}),
        ({"COLUMNS": "80", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "RUST_LOG": "debug"}, Sources(), {}),
        (
            {"SSL_CERT_FILE": "/a", "https_proxy": "b", "NO_PROXY": "c"},
            Sources(certificate="/ca", client_certificate="/me", proxy="p"),
            {"SSL_CERT_FILE": "/ca", "SSL_CLIENT_CERT": "/me", "HTTP_PROXY": "p", "HTTPS_PROXY": "p"},
        ),
    ],
)
def test_uv_is_given_certificates_and_proxies_and_no_variables_of_its_own(
    given: dict[str, str], sources: Sources, expected: dict[str, str]
) -> None:
    assert uv.variables(given, sources) == expected | uv.LOG


def bindings_of(asked: Plan, sources: Sources) -> dict[str, Any]:
    """Return the place of the oneCCL bindings as uv is told."""
    told = tomllib.loads(uv.project(asked, sources, asked.requirements))["tool"]["uv"]
    assert told["sources"] == {"oneccl-bind-pt": {"index": "bindings"}}
    [place] = told["index"]
    assert (place.pop("name"), place.pop("explicit")) == ("bindings", True)
    return dict(place)


def test_the_bindings_of_an_early_torch_come_from_intels_page() -> None:
    early = question(Request(torch="2.0.1", transformers="4.40.0", base="debian"))

    assert bindings_of(early, Sources()) == {"url": early.find_links, "format": "flat"}
    assert early.find_links
    for links in ((), (early.find_links,)):
        assert uv.with_bindings(early, Sources(links=links), early.requirements).links == (early.find_links,)


@pytest.mark.parametrize("version", ["2.4.0", "2.4.0+cpu"])
def test_the_bindings_come_from_a_directory_that_has_them(tmp_path: Path, version: str) -> None:
    (tmp_path / f"oneccl_bind_pt-{version}-cp310-cp310-linux_x86_64.whl").touch()
    sources = Sources(links=("/none", tmp_path.as_uri()))

    assert bindings_of(ONECCL, sources) == {"url": tmp_path.as_uri(), "format": "flat"}
    assert uv.with_bindings(ONECCL, sources, ONECCL.requirements) == sources


def test_the_bindings_of_another_release_in_a_directory_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "oneccl_bind_pt-2.3.0-cp310-cp310-linux_x86_64.whl").touch()

    assert bindings_of(ONECCL, Sources(links=(str(tmp_path),)))["url"] == ONECCL.bindings_index


def test_the_login_of_an_index_of_bindings_is_in_no_file() -> None:
    named = dataclasses.replace(ONECCL, bindings_index="https://me:secret@mirror/simple")

    assert bindings_of(named, Sources()) == {"url": "https://mirror/simple", "format": "simple"}
    assert "secret" in uv.format_config(named, uv.with_bindings(named, Sources(), named.requirements))


def test_bindings_are_missed_where_no_index_may_be_asked() -> None:
    with pytest.raises(UserFault, match=r"no index may be asked for them: oneccl_bind_pt 2\.4\.0"):
        bindings_of(ONECCL, Sources(no_index=True))
    assert uv.with_bindings(ONECCL, Sources(no_index=True), ONECCL.requirements) == Sources(no_index=True)


def test_intels_index_is_asked_for_nothing_else() -> None:
    assert uv.with_bindings(NEWEST, Sources(), NEWEST.requirements) == Sources()
    assert uv.with_bindings(NEWEST, here := Sources(links=("/wheels",)), ["oneccl_bind_pt"]) == here
    assert uv.with_bindings(ONECCL, Sources(), ["numpy==1.26.4"]) == Sources()
    assert "index" not in uv.project(NEWEST, Sources(), NEWEST.requirements)


@pytest.mark.parametrize(
    "missed", ["torch was not found", "no version of torch==2.13.0", "torch==2.13.0 has no wheels"]
)
def test_pytorchs_index_is_asked_only_for_what_was_missed(missed: str) -> None:
    assert uv.with_torch_index(Sources(), "pytorch was good", None, NEWEST, None) == Sources()
    wider = uv.with_torch_index(Sources(), f"because {missed}", None, NEWEST, None)
    assert wider.extra == (TORCH_INDEX,)
    assert uv.with_torch_index(wider, f"because {missed}", None, NEWEST, None) == wider
    more = uv.with_torch_index(Sources(extra=(ONE,)), f"because {missed}", None, NEWEST, None)
    assert more.extra == (ONE, TORCH_INDEX)
    assert uv.with_torch_index(Sources(no_index=True), missed, None, NEWEST, None) == Sources(no_index=True)


def test_what_is_pinned_without_a_day_is_exempt_from_the_day() -> None:
    assert "oneccl-bind-pt=false" in uv.options(ONECCL, ONECCL.requirements, Sources())
    every = uv.options(NEWEST, NEWEST.requirements, Sources())
    exempt = {option.removesuffix("=false") for option in every if option.endswith("=false")}
    assert exempt == {"torch", "transformers", "impi-rt", "intel-openmp", "rouge-score", "seqeval"}


@pytest.mark.parametrize(("text", "is_exempt"), [("peft==0.1", True), ("peft===0.1", True), ("peft==0.*", False),
                                                 ("peft<2,==1.*", False), ("peft>=1", False)])  # fmt: skip
def test_a_day_decides_where_there_is_a_choice(text: str, is_exempt: bool) -> None:
    assert ("peft=false" in uv.options(NEWEST, [text], Sources())) is is_exempt


def test_wheels_are_those_of_the_images_python_and_platform_as_of_its_days() -> None:
    asked = question(replace(ON_ARM64, torch="2.10.0", transformers="5.0.0"))
    options = uv.options(asked, ["Peft>=1", "Six==1.0"], Sources(extra=(TORCH_INDEX,)))

    family = dict.fromkeys(("transformers", "tokenizers", "huggingface-hub", "hf-xet", "safetensors", "accelerate"),
                           "2026-01-27T00:00:00Z")  # fmt: skip
    days = {**family, **dict.fromkeys(("six", "torch", "torchaudio", "torchvision"), "false")}
    packages = [word for name, day in sorted(days.items()) for word in ("--exclude-newer-package", f"{name}={day}")]
    assert options == [
        "--no-header", "--no-progress", "--only-binary", ":all:", "--python-version", "3.11", "--python-platform",
        "aarch64-manylinux_2_36", "--exclude-newer", "2026-01-22T00:00:00Z", *packages, "--no-binary", "rouge-score",
        "--no-binary", "seqeval",
    ]  # fmt: skip
    assert uv.options(replace(asked, glibc="2.41"), [], Sources())[7] == "aarch64-manylinux_2_40"  # which uv knows


def test_no_day_is_too_late_for_a_lock() -> None:
    last = dataclasses.replace(NEWEST, as_of=datetime.date.max)

    assert "9999-12-31T00:00:00Z" in uv.options(last, (), Sources())


# What is asked in the end, and of whom it is known that he has answered.

ONE, TWO = "https://one/simple", "https://two/simple"
TWO_INDEXES = Sources(index=ONE, extra=(TWO,))
SAID, NO_SET = "error: No solution found when resolving dependencies", "no set of packages fits"
TORCH_MISSED = uv.UvAnswer(f"{SAID}: no version of torch==1", None, ("thing",))
NOTHING = uv.UvAnswer(SAID, None, ("thing",))


def has_thing(host: str) -> uv.UvAnswer:
    return uv.UvAnswer("", resolved("thing", "1.0", host), ("thing", "other"))


@pytest.mark.parametrize(
    ("sources", "answers", "pages", "expected", "without"),
    [
        (TWO_INDEXES, [has_thing(ONE)], {f"{ONE}/thing/": 200}, [TWO], []),
        (TWO_INDEXES, [has_thing(ONE)], {f"{ONE}/thing/": 200, f"{TWO}/other/": 200}, [], []),
        (TWO_INDEXES, [has_thing(ONE)], {f"{ONE}/thing/": 200, f"{TWO}/other/": 500}, f"{TWO}/other/", []),
        (Sources(index=ONE), [has_thing(ONE)], {f"{ONE}/other/": 404}, [], []),
        (Sources(index=ONE), [has_thing(ONE)], {f"{ONE}/other/": 500}, f"{ONE}/other/", []),
        (Sources(index=ONE), [has_thing(ONE)], {f"{ONE}/thing/": 500}, [], []),  # it has answered: its file is taken
        (Sources(index=ONE, links=("https://page/x",)), [has_thing(ONE)], {"https://page/x": 500}, "page/x", []),
        (Sources(index=ONE), [TORCH_MISSED, has_thing(ONE)], {f"{ONE}/thing/": 200}, [TORCH_INDEX], []),
        (Sources(index=ONE), [TORCH_MISSED, has_thing(ONE)], {f"{ONE}/thing/": 500}, f"{ONE}/thing/", []),
        (Sources(index=ONE), [TORCH_MISSED, TORCH_MISSED], {f"{ONE}/thing/": 200}, NO_SET, [TORCH_INDEX]),
        (TWO_INDEXES, [NOTHING], {f"{ONE}/thing/": 200}, NO_SET, [TWO]),
        (TWO_INDEXES, [NOTHING], {f"{ONE}/thing/": 200, f"{TWO}/thing/": 401}, "refuses the login", []),
        (Sources(index="http://one/simple"), [], {}, "http://one", []),
    ],
)  # fmt: skip
def test_what_was_chosen_counts_where_every_index_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: Sources, answers: list[uv.UvAnswer],
    pages: dict[str, int], expected: list[str] | str, without: list[str],
) -> None:  # fmt: skip
    """Else uv may have taken a package of another index, where anybody can have its name."""
    asked, coming, notes = list[Sources](), iter(answers), list[str]()

    def ask(_: Plan, asked_sources: Sources, *__: object) -> uv.UvAnswer:
        asked.append(asked_sources)
        return next(coming)

    def answer(request: Asked) -> Reply:
        name = request.path.strip("/").rpartition("/")[2]
        page = f"<a href={name}-1.0.tar.gz>".encode()
        return Reply(pages.get(request.target, 404), page, {"Content-Type": "text/html"})

    monkeypatch.setattr(uv, "ask", ask)
    context = locks.context(Store(tmp_path), sources, {})
    monkeypatch.setattr(context.progress, "say", notes.append)
    with answered(answer), nullcontext() if isinstance(expected, list) else pytest.raises(Fault) as caught:
        chosen = uv.ask_sources(NEWEST, sources, context, ("thing",))

    if isinstance(expected, list):
        assert chosen == uv.Chosen(answers[-1].pylock, asked[-1], tuple(expected)) and notes == []  # type: ignore[arg-type]
    elif caught:
        assert expected in f"{caught.value.fact}: {caught.value.value}"
        named = [note.removeprefix("note: an index has none of the packages: ").partition(" (")[0] for note in notes]
        assert named == without
    wider = [replace(sources, extra=(*sources.extra, TORCH_INDEX))] * (len(answers) == 2)
    assert asked == [sources, *wider][: len(asked)]


@pytest.mark.parametrize(("answer", "versions"), [(has_thing(ONE), {"thing": "1.0"}), (NOTHING, None)])
def test_why_nothing_fits_is_found_out_by_more_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: uv.UvAnswer, versions: dict[str, str] | None
) -> None:
    sources, context = Sources(index=ONE), locks.context(Store(tmp_path), None, {})
    monkeypatch.setattr(uv, "ask", lambda *given: answer if given == (NEWEST, sources, context, ("a",)) else NOTHING)

    def explain(said: str, *given: Any) -> Fault:
        *known, ask = given
        assert (said, *known) == (SAID, NEWEST, sources, context)
        assert ask(("a",)) == (answer.said, versions)
        return WorldFault("it", "ends", "here")

    monkeypatch.setattr(uv, "explain", explain)
    with pytest.raises(WorldFault, match="it: ends"):
        uv.ask_sources(NEWEST, sources, context, ("thing",))


def test_of_several_pages_that_do_not_answer_the_first_by_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "fedcba"
    rows = [{"name": name, "version": "1", "wheels": [{"url": f"{ONE}/{name}-1-py3-none-any.whl",
             "hashes": {"sha256": "0"}}]} for name in names]  # fmt: skip
    chosen = Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": rows})
    monkeypatch.setattr(uv, "ask", lambda *_: uv.UvAnswer("", chosen, ()))
    context = locks.context(Store(tmp_path), TWO_INDEXES, {})

    with answered(lambda _: Reply(500)), pytest.raises(WorldFault, match=f"{ONE}/a/"):
        uv.ask_sources(NEWEST, TWO_INDEXES, context, ())


@pytest.mark.parametrize("code", [0, 1])
def test_what_uv_looked_for_is_read_out_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    log = f"TRACE Fetching metadata for `other` from {ONE}/other/\nDEBUG more\nerror: said\n"
    answer = process.Result(code, 'lock-version = "1.0"\ncreated-by = "uv"\npackages = []\n', log)
    monkeypatch.setattr(process, "run", lambda *_: answer)

    said = uv.ask(NEWEST, Sources(), locks.context(Store(tmp_path), Sources(), {}), ("B_c>1", "a"))

    assert (said.said, said.looked_for) == ("error: said", ("other", "a", "b-c"))
    assert (said.pylock is None) is bool(code)
