"""What is made of uv's answers: the file of each package that an image takes."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.pylock import Pylock
from packaging.version import Version
from rich.console import Console

from images.base import debian as base_of_debian
from images.base.base import Base
from images.context import Settings
from images.debian import packages as debian
from images.debian.deb import Deb, Debian
from images.host.background import Progress, background
from images.host.errors import Damaged, UserFault, WorldFault
from images.lock import index_pages, resolve, uv
from images.lock.index_pages import list_addresses
from images.lock.lock import UserPackages
from images.lock.uv import Chosen, UvAnswer
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.catalog import TORCH_INDEX
from images.plan.plan import Plan, Request
from images.platforms import AMD64, ARM64, Platform
from images.store.store import Store
from tests.support import locks, packages
from tests.support.bases import base
from tests.support.stand_in import SYSTEM

PLAIN = replace(planner.make_plan(Request(), catalog.load()), user_packages=("deepspeed", "peft", "trl"))
NONE = "error: No solution found when resolving dependencies\n  cause: Because "
END = ", we can conclude that your requirements are unsatisfiable.\n\nhint: Wheels are required for `deepspeed`"


def lock_of(**versions: str) -> Pylock:
    packages = []
    for name, version in versions.items():
        wheel = {"url": f"https://host/{name}-{version}-py3-none-any.whl", "hashes": {"sha256": "0"}}
        packages.append({"name": name, "version": version, "wheels": [wheel]})
    return Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": packages})


def test_each_that_is_not_the_newest_has_a_line_with_what_holds_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = {"deepspeed": "0.19.8", "peft": "0.19.1", "trl": "1.13.0", "absent": "1"}
    said = {
        "deepspeed==0.19.8": "deepspeed==0.19.8 has no usable wheels and this-image depends on deepspeed==0.19.8",
        "trl==1.13.0": "trl==1.13.0 depends on accelerate>2 and this-image depends on accelerate<2",
    }

    def ask(*question: object) -> UvAnswer:
        requirements = question[-1]
        assert isinstance(requirements, Sequence) and requirements[:-1] == ("deepspeed", "peft", "trl")
        return UvAnswer(f"{NONE}{said[requirements[-1]]}{END}", None, ())

    monkeypatch.setattr(uv, "ask", ask)
    monkeypatch.setattr(resolve, "find_newest", lambda *_: {name: Version(text) for name, text in newest.items()})
    chosen = Chosen(lock_of(deepspeed="0.3.1.dev5", peft="0.19.1", trl="0.9"), Sources())

    notes = resolve.list_held_back(PLAIN, chosen, locks.context(store, Sources(), {}), ("deepspeed", "peft", "trl"))

    build = "build one: pip wheel --no-deps --wheel-dir wheels deepspeed==0.19.8, then --wheelhouse wheels"
    assert notes == [
        f"deepspeed 0.3.1.dev5, not 0.19.8, the newest of {PLAIN.as_of}: Because {said['deepspeed==0.19.8']}; {build}",
        f"trl 0.9, not 1.13.0, the newest of {PLAIN.as_of}: Because {said['trl==1.13.0']}",
    ]


PLAN = planner.make_plan(Request(), catalog.load())
QUESTION = replace(PLAN, python="3.11", glibc="2.36")


def pylock(*urls: str) -> Pylock:
    """Write one release with these files, as uv does."""
    files = [{"url": url, "hashes": {"sha256": str(number)}} for number, url in enumerate(urls)]
    wheels = [file for file in files if str(file["url"]).endswith(".whl")]
    package: dict[str, object] = {"name": "a", "version": "1", "wheels": wheels}
    if archives := [file for file in files if file not in wheels]:
        package["sdist"] = archives[0]
    return Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": [package]})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"], 1),
        (["a-1-cp311-cp311-manylinux2014_x86_64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
        (["a-1-cp38-abi3-manylinux_2_34_x86_64.whl", "a-1.tar.gz"], 0),
        (["a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl"], 1),
        (["a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1.tar.gz"], 1),
    ],
)
def test_the_best_file_is_chosen(names: list[str], expected: int) -> None:
    chosen = resolve.choose_files(pylock(*(f"https://host/p/{name}" for name in names)), QUESTION)

    assert [artifact.sha256 for artifact in chosen.artifacts] == [str(expected)]
    assert chosen.undated == ("a",)


def test_a_wheel_of_the_user_s_directory_wins_over_a_better_one(tmp_path: Path) -> None:
    own = tmp_path / "a-1-py3-none-any.whl"
    own.touch()
    both = pylock("https://host/p/a-1-cp311-cp311-manylinux_2_28_x86_64.whl", own.as_uri())

    chosen = [resolve.choose_files(both, QUESTION, directory).artifacts[0] for directory in (None, str(tmp_path))]

    assert [artifact.sha256 for artifact in chosen] == ["0", "1"]


def test_a_local_version_in_an_address_is_read() -> None:
    place = "https://host/torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    wheel = {"url": place, "hashes": {"sha256": "0"}}
    package = {"name": "torch", "version": "2.13.0+cpu", "wheels": [wheel]}
    raw = {"lock-version": "1.0", "created-by": "uv", "packages": [package]}

    artifact = resolve.choose_files(Pylock.from_dict(raw), QUESTION).artifacts[0]

    assert (artifact.filename, artifact.url) == ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", place)


def test_a_package_without_a_fitting_file_is_named() -> None:
    with pytest.raises(UserFault, match="no wheel for the image") as caught:
        resolve.choose_files(pylock("https://host/a-1-cp312-cp312-manylinux_2_28_x86_64.whl"), QUESTION)

    assert "'a'" in caught.value.value


@pytest.mark.parametrize(("days", "asked"), [(1, 1), (0, 2), (-1, 2)])
def test_a_resolution_is_kept_when_its_day_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, asked: int
) -> None:
    """`days` after the last day of the plan, it is resolved twice."""
    answer, questions = pylock("https://host/a-1-py3-none-any.whl"), list[object]()

    def search(*question: object) -> Chosen:
        questions.append(question)
        return Chosen(answer, Sources())

    monkeypatch.setattr(uv, "ask_sources", search)
    today = max(PLAN.as_of, PLAN.family_as_of) + datetime.timedelta(days=days)
    context = replace(locks.context(Store(tmp_path), Sources(), {}), today=today)
    first, again = (resolve.resolve_packages(PLAN, context) for _ in range(2))

    assert len(questions) == asked
    assert first == again == resolve.choose_files(answer, PLAN)._replace(indexes=list_addresses(Sources()))


def test_what_is_said_of_a_resolution_is_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Chosen(pylock("https://host/a-1-py3-none-any.whl"), Sources())
    monkeypatch.setattr(uv, "ask_sources", lambda *_: answer)
    monkeypatch.setattr(resolve, "list_held_back", lambda *_: ["a 1, not 2"])
    first = resolve.resolve_packages(PLAN, locks.context(Store(tmp_path), Sources(), {}))
    monkeypatch.delattr(resolve, "list_held_back")

    again = resolve.resolve_packages(PLAN, locks.context(Store(tmp_path), Sources(), {}))

    assert first == again and again.notes == ("a 1, not 2",)


def test_another_release_of_uv_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, releases = pylock("https://host/a-1-py3-none-any.whl"), list[str]()
    context = locks.context(Store(tmp_path), Sources(), {})

    for release in ("0.13.0", "0.13.0", "0.13.1"):

        def search(*_: object, release: str = release) -> Chosen:
            releases.append(release)
            return Chosen(answer, Sources())

        monkeypatch.setattr(uv, "ask_sources", search)
        monkeypatch.setattr(resolve, "version", {"uv": release}.__getitem__)
        resolve.resolve_packages(PLAN, context)

    assert releases == ["0.13.0", "0.13.1"]


OTHER_PLANS: list[dict[str, Any]] = [
    {"platform": ARM64}, {"requirements": (*PLAN.requirements, "six")}, {"python": "3.12"}, {"glibc": "2.41"},
    {"as_of": datetime.date(2026, 1, 1)}, {"family_as_of": datetime.date(2026, 1, 1)}, {"bindings_index": "https://x"},
    {"find_links": "https://x"}, {"bindings": "2.4.0"}, {"cpu_suffix": not PLAN.cpu_suffix},
    {"user_packages": ("six",)}, {"source_only": PLAN.source_only[:1]},
]  # fmt: skip
OTHER_SOURCES: list[dict[str, Any]] = [{}, {"index": "https://x"}, {"extra": ("https://x",)}, {"no_index": True}]


@pytest.mark.parametrize(
    ("plan", "sources", "wheelhouse", "asked"),
    [
        *((changes, {}, None, 2) for changes in OTHER_PLANS),
        *(({}, changes, None, 1 + bool(changes)) for changes in OTHER_SOURCES),
        ({"tag": "another:1"}, {}, None, 1), ({}, {}, "wheels", 2),
    ],
)  # fmt: skip
def test_another_question_is_asked_and_the_same_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], sources: dict[str, Any],
    wheelhouse: str | None, asked: int,
) -> None:  # fmt: skip
    questions, chosen = list[object](), Chosen(pylock("https://host/a-1-py3-none-any.whl"), Sources())
    monkeypatch.setattr(uv, "ask_sources", lambda *question: questions.append(question) or chosen)  # type: ignore[func-returns-value]
    monkeypatch.setattr(resolve, "list_held_back", lambda *_: [])
    monkeypatch.chdir(tmp_path)
    Path("wheels").mkdir()
    for changes, pip, directory in (({}, {}, None), (plan, sources, wheelhouse)):
        context = locks.context(Store(tmp_path / "store"), Sources(**pip), {}, directory)
        resolve.resolve_packages(replace(PLAN, **changes), context)

    assert len(questions) == asked


def test_other_files_in_a_directory_of_wheels_are_another_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, chosen = list[object](), Chosen(pylock("https://host/a-1-py3-none-any.whl"), Sources())
    monkeypatch.setattr(uv, "ask_sources", lambda *question: questions.append(question) or chosen)  # type: ignore[func-returns-value]
    wheels, counts = tmp_path / "wheels", list[int]()
    (wheels / "a-1-py3-none-any.whl").mkdir(parents=True)  # no file
    for name, content in (("read me", b""), ("b-1-py3-none-any.whl", b"1"), ("b-1-py3-none-any.whl", b"two")):
        (wheels / name).write_bytes(content)
        resolve.resolve_packages(PLAN, locks.context(Store(tmp_path / "store"), Sources(links=(str(wheels),)), {}))
        counts.append(len(questions))

    assert counts == [1, 2, 3]


SEQEVAL = "seqeval-1.2.2-py3-none-any.whl"


@pytest.mark.parametrize(
    ("name", "archives"),
    [
        (SEQEVAL, ["rouge-score"]),
        ("seqeval-1.2.3-py3-none-any.whl", ["rouge-score", "seqeval"]),
        ("seqeval-1.2.2-cp27-none-any.whl", ["rouge-score", "seqeval"]),
        ("seqeval-1.2.2.tar.gz", ["rouge-score", "seqeval"]),
    ],
)
@pytest.mark.parametrize("is_wheelhouse", [True, False])
def test_a_source_archive_is_taken_unless_a_directory_of_the_user_has_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, archives: list[str], is_wheelhouse: bool
) -> None:
    """An index's wheel is none of the user's: it would be taken here and not there for the same request."""
    wheels, asked = tmp_path / "wheels", list[Plan]()
    wheels.mkdir()
    (wheels / name).touch()

    def search(question: Plan, *_: object) -> Chosen:
        asked.append(question)
        return Chosen(pylock("https://host/a-1-py3-none-any.whl"), Sources())

    monkeypatch.setattr(uv, "ask_sources", search)
    sources = Sources() if is_wheelhouse else Sources(links=(str(tmp_path), str(wheels)))
    context = locks.context(Store(tmp_path / "store"), sources, {})
    settings = Settings(wheelhouse=str(wheels) if is_wheelhouse else None)
    resolve.resolve_packages(PLAN, replace(context, settings=settings))

    assert [row.name for row in asked[0].source_only] == archives


def test_a_place_of_pips_that_is_not_on_this_machine_is_left_out_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As pip does; uv would end."""
    (tmp_path / "page.html").touch()
    there = (str(tmp_path), tmp_path.as_uri(), (tmp_path / "page.html").as_uri(), "https://host/page.html")
    absent = (str(tmp_path / "none"), "none/here", (tmp_path / "n one").as_uri())
    sources = Sources(links=(*absent, *there))
    context = replace(locks.context(Store(tmp_path), sources, {}), progress=Progress(Console(stderr=True, width=500)))

    assert resolve.with_wheelhouse(context) == Sources(links=there)

    told = capsys.readouterr().err.splitlines()
    assert told == [f"note: a place of pip's find-links is not there, and is left out: {link}" for link in absent]


@pytest.mark.parametrize("stated", ["0", "f"])
def test_a_file_has_a_hash_of_the_line_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    """One file of requirements has a line for each Python, as uv's --universal writes it."""
    lines = (f'a==1; python_version >= "3.11" --hash=sha256:{stated * 64}',
             f'a==0; python_version < "3.11" --hash=sha256:{"e" * 64}')  # fmt: skip
    torch = locks.artifact("torch", "2.13.0+cpu")
    resolved = resolve.Resolved((torch, replace(locks.artifact("a", "1"), sha256="0" * 64)), ())
    asked = list[Plan]()
    monkeypatch.setattr(resolve, "resolve_packages", lambda plan, _: asked.append(plan) or resolved)  # type: ignore[func-returns-value]
    planned = replace(QUESTION, user_packages=lines)

    if stated == "0":
        users = UserPackages(lines, ())
        assert resolve.resolve_with_users(planned, locks.context(Store(tmp_path), None, {})) == (resolved, users)
        built = ("torch==2.13.0+cpu", *planned.requirements[1:])
        assert asked == [replace(planned, user_packages=()), replace(planned, requirements=built)]
        return
    with pytest.raises(UserFault, match="none of those"):
        resolve.resolve_with_users(planned, None)  # type: ignore[arg-type]


def hashed(*names: str) -> resolve.Resolved:
    """Return a resolution of torch, and of packages with a sha256 of their first letter."""
    files = [replace(locks.artifact(name, "1"), sha256=name[0] * 64) for name in names]
    return resolve.Resolved((locks.artifact("torch", "2.13.0+cpu"), *files), ())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a==1 --hash=sha256:A", "b==1 --hash=sha256:B"], None),
        (["a==1 --hash=sha256:A", "b==1 --constraint --hash=sha256:B"], None),
        (["a==1 --hash=sha256:A"], "b==1"),
        (["a==1 --hash=sha256:A", "b"], "b==1"),
        (["b==1 --constraint --hash=sha256:B", "a"], "a==1"),
        (["a==1", "b==1"], None),
        (["a==1 --hash=sha256:A", 'b==1; python_version < "3.11" --hash=sha256:B'], "b==1"),
        (['a==1; python_version < "3.11" --hash=sha256:A', "b==1"], None),
    ],
)
def test_one_hash_asks_for_those_of_all_that_only_the_user_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], said: str | None
) -> None:
    """`c` is of the image, and needs none."""
    lines = [line.replace("sha256:A", f"sha256:{'a' * 64}").replace("sha256:B", f"sha256:{'b' * 64}") for line in lines]
    answers = {True: hashed("c"), False: hashed("b", "a", "c")}
    monkeypatch.setattr(resolve, "resolve_packages", lambda plan, _: answers[not plan.user_packages])
    context = locks.context(Store(tmp_path), Sources(), {})

    with pytest.raises(UserFault, match="has no hash") if said else nullcontext() as caught:
        _, users = resolve.resolve_with_users(replace(QUESTION, user_packages=tuple(lines)), context)
        assert users == UserPackages(tuple(lines), ("a", "b"))
    assert caught is None or caught.value.value == said


@pytest.mark.parametrize(
    ("lines", "left_out"),
    [
        (["torch==2.13.0 F"], "torch"),
        (["torch==2.13.0 F", "a==1 F"], "torch"),
        (["torch==2.13.0 F", "c==1 F"], "torch, c"),
        (["torch==2.13.0 0", "c==1 F"], "c"),
        (["a==1 F"], None),
        (["a==1 F", "d==1 F"], None),
    ],
)
def test_a_line_of_the_image_s_own_package_is_left_out_where_its_hash_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], left_out: str | None
) -> None:
    """`a` is the user's alone, and there is no `d`."""
    answers = {True: hashed("c"), False: hashed("a", "c")}
    monkeypatch.setattr(resolve, "resolve_packages", lambda plan, _: answers[not plan.user_packages])
    stated = tuple(f"{line[:-1]}--hash=sha256:{line[-1].lower() * 64}" for line in lines)
    context = locks.context(Store(tmp_path), Sources(), {})

    with pytest.raises(UserFault, match="none of those") as caught:
        resolve.resolve_with_users(replace(QUESTION, user_packages=stated), context)

    assert caught.value.remedy.startswith(f"leave the lines of {left_out} out" if left_out else "hashes of these files")
    files = {file.name: f"{file.filename} sha256 {file.sha256}" for file in answers[False].artifacts}
    odd = [line.partition("=")[0] for line in lines if line.endswith("F") and not line.startswith("d")]
    assert caught.value.value == ", ".join(files[name] for name in odd)


@pytest.mark.parametrize(
    ("stated", "chosen"),
    [
        ([""], "1"), (["0"], "0"), (["1"], "1"), (["01"], "1"), (["3"], "1"), (["03"], "0"), (["2"], "2"),
        (["01", "0"], "0"), (["0", "01"], "0"),
    ],
)  # fmt: skip
def test_a_stated_hash_chooses_among_the_files_of_a_release(stated: list[str], chosen: str) -> None:
    """Of a package with several lines it is one that each of them states; 2 is the source archive."""
    names = ("a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl")
    files = [{"url": f"https://host/{name}", "hashes": {"sha256": str(n) * 64}} for n, name in enumerate(names)]
    archive = {"url": "https://host/a-1.tar.gz", "hashes": {"sha256": "2" * 64}}
    package = {"name": "a", "version": "1", "wheels": files, "sdist": archive}
    answer = Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": [package]})
    lines = tuple(" ".join(["a==1", *(f"--hash=sha256:{digit * 64}" for digit in digits)]) for digits in stated)

    [file] = resolve.choose_files(answer, replace(QUESTION, user_packages=lines)).artifacts

    assert file.sha256 == chosen * 64


# The packages of Debian, and those for a GPU.


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("in_background", [False, True])
def test_a_base_is_made_of_the_packages_that_were_chosen(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool, in_background: bool
) -> None:
    deb = packages.make(store, tmp_path / "made", "tini", {"a": b""})
    if gone:
        store.drop(store.place(deb.sha256, deb.filename))
    recipe, asked = Debian("bookworm", ("tini",), "", (deb,)), list[object]()

    def choose(*question: object) -> Debian:
        asked.append(question)
        return recipe

    monkeypatch.setattr(debian, "resolve_base", choose)
    debian_base = base(SYSTEM)

    def make(*given: object) -> Base:
        asked.append(given)
        return debian_base

    monkeypatch.setattr(base_of_debian, "make_base", make)
    context = locks.context(store, Sources(), {"A": "1"})

    with background(2) if in_background else nullcontext() as start:
        wait, making = resolve.choose_debs(PLAN, context, start)
        assert wait() == recipe
        if making and gone:
            with pytest.raises(Damaged):
                making.result()
        elif making:
            assert making.result() == debian_base
    assert (making is not None) is in_background
    question, build = (PLAN.suite, PLAN.packages, PLAN.platform, context), (store, recipe, PLAN.platform, PLAN.python)
    assert asked == [question, *[(*build, {"A": "1"}, PLAN)] * (in_background and not gone)]


@pytest.mark.parametrize(
    ("here", "there", "fits"),
    [
        ("3.11.2-6", "3.11.2-6", True), ("3.11.2-6+b1", "3.11.2-6", True), ("3.11.2-6", "3.11.2-6+b12", True),
        ("3.11.2-6", "3.11.2-7", False), ("3.11.2-6+b", "3.11.2-6", False), ("3.11.2-6", "3.11.2-6+deb1", False),
        (None, "3.11.2-6", False),
    ],
)  # fmt: skip
def test_the_python_that_compiles_for_another_machine_is_of_the_same_source(
    store: Store, monkeypatch: pytest.MonkeyPatch, here: str | None, there: str, fits: bool
) -> None:
    python, asked = f"python{PLAN.python}-minimal", list[object]()

    def choose(suite: str, names: Sequence[str], platform: Platform, _: object) -> tuple[Deb, ...]:
        asked.append((suite, names[0], platform))
        return replace(locks.TINI, package=python, version=there), replace(locks.TINI, version="9")

    monkeypatch.setattr(debian, "resolve_single", choose)
    debs = (locks.TINI, *([replace(locks.TINI, package=python, version=here)] if here else []))
    recipe, context = Debian("bookworm", (), "", debs), locks.context(store, Sources(), {})
    planned = replace(PLAN, platform=ARM64, bytecode=True)

    for other in (replace(planned, platform=AMD64), replace(planned, bytecode=False)):
        assert resolve.choose_twin(other, recipe, context) is None
    with nullcontext() if fits else pytest.raises(WorldFault, match="another release of Python") as caught:
        twin = resolve.choose_twin(planned, recipe, context)
        assert twin and [deb.version for deb in twin] == [there, "9"]
    assert asked == [(PLAN.suite, python, AMD64)]
    assert fits or caught is None or f"{python} {there} for linux/amd64, {here} for linux/arm64" == caught.value.value


@pytest.mark.parametrize(
    ("unfit", "lines", "requirers", "remedy"),
    [
        (["nvidia-cublas 13"], ["vllm", "six"], {"nvidia-cublas": ["torch"], "torch": ["vllm", "this-image"]}, "vllm"),
        (["nvidia-cublas 13", "triton 3"], ["b", "a"], {"nvidia-cublas": ["b"], "triton": ["a"], "b": ["a"]}, "a, b"),
        (["triton 3"], ["triton>3"], {}, "triton"),
        (["triton 3"], ["six"], {"triton": ["torch"], "torch": ["triton"]}, None),  # a circle, and nobody's own
        (["torch 2.13.0+cu130"], ["torchvision"], {"torch": ["torchvision"]}, None),
    ],
)
def test_who_brings_packages_for_a_gpu_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfit: list[str], lines: list[str],
    requirers: dict[str, list[str]], remedy: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(uv, "ask_sources", lambda *_: Chosen(pylock("https://host/a-1.tar.gz"), Sources()))
    monkeypatch.setattr(uv, "list_for_gpu", lambda *_: unfit)
    monkeypatch.setattr(uv, "ask_requirers", lambda *_: requirers)
    planned = replace(PLAN, user_packages=tuple(lines))

    with pytest.raises(UserFault, match="packages for a GPU") as caught:
        resolve.resolve_packages(planned, locks.context(Store(tmp_path), Sources(), {}))

    assert caught.value.value == ", ".join(unfit)
    leave = f"leave out what needs a GPU, or take another release of it: {remedy}"
    assert caught.value.remedy == (
        leave if remedy else f"a source with builds for the CPU: --wheelhouse DIR, or {TORCH_INDEX}"
    )


INDEX = "https://a"


@pytest.mark.parametrize(
    ("empty", "silent", "lines"),
    [
        ((), (), ()),
        (("https://a",), (), ()),
        (("https://a",), ("https://a",), ()),
        (("https://a", "https://b"), ("https://a", "https://b"), ("a",)),
    ],
)
def test_an_index_that_answers_for_nothing_ends_a_build_and_one_that_has_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: tuple[str, ...], silent: tuple[str, ...],
    lines: tuple[str, ...],
) -> None:  # fmt: skip
    answer = hashed("a")._replace(empty=empty, silent=silent)
    notes = list[str]()
    monkeypatch.setattr(resolve, "resolve_packages", lambda *_: answer)
    context = locks.context(Store(tmp_path), Sources(), {})
    monkeypatch.setattr(context.progress, "say", notes.append)

    with pytest.raises(UserFault, match="not for itself") if silent else nullcontext() as caught:
        resolve.resolve_with_users(replace(QUESTION, user_packages=lines), context)

    assert (caught is None) or caught.value.value == f"{', '.join(silent)} (404, or another refusal)"
    assert len(notes) == (bool(empty) and not silent)


@pytest.mark.parametrize("silent", [True, False])
def test_an_index_that_has_nothing_is_asked_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    chosen = Chosen(pylock("https://host/a-1-py3-none-any.whl"), Sources(index="https://one"), ("https://two",))
    monkeypatch.setattr(uv, "ask_sources", lambda *_: chosen)
    monkeypatch.setattr(index_pages, "has_root", lambda *_: not silent)

    resolved = resolve.resolve_packages(PLAN, locks.context(Store(tmp_path), Sources(), {}))

    assert (resolved.empty, resolved.silent, resolved.indexes) == (
        ("https://two",),
        ("https://two",) * silent,
        ("https://one",),
    )


def test_a_file_without_a_sha256_is_refused() -> None:
    wheel = {"url": "https://host/a-1-py3-none-any.whl", "hashes": {"md5": "0"}}
    raw = {"lock-version": "1.0", "created-by": "uv", "packages": [{"name": "a", "version": "1", "wheels": [wheel]}]}

    with pytest.raises(UserFault, match="without its sha256") as caught:
        resolve.choose_files(Pylock.from_dict(raw), QUESTION)
    assert caught.value.value == "https://host/a-1-py3-none-any.whl (it has md5)"
