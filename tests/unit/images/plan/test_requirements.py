"""The user's own packages: what files of requirements and projects say, and what of them is not followed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import Fault, UserFault
from images.plan import catalog, planner, requirements
from images.plan.plan import Request
from images.platforms import AMD64, PLATFORMS, Platform

DIGEST, OTHER = "a" * 64, "b" * 64
Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes files, as name -> text, and returns the directory that they are in."""

    def files(texts: Mapping[str, str]) -> Path:
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return files


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("peft\n", ["peft"]),
        ("# a comment\n\npeft>=0.10,<1  # adapters\ntrl[vllm]==0.24.0\n", ["peft<1,>=0.10", "trl[vllm]==0.24.0"]),
        ('peft; python_version < "3.9"\r\n', ['peft; python_version < "3.9"']),
        ("peft \\\n  >=0.10\n", ["peft>=0.10"]),
        (f"peft==1 \\\n --hash=sha256:{OTHER} \\\n --hash=sha256:{DIGEST}\n",
         [f"peft==1 --hash=sha256:{DIGEST} --hash=sha256:{OTHER}"]),
        ("-r more/one.txt\n", ["tensorboard==2"]),
        ("--requirement=more/two.txt\n", ["protobuf<7 --constraint", "trl"]),
        ("-c more/one.txt\npeft", ["peft", "tensorboard==2 --constraint"]),
        ("-r mine.txt\npeft", ["peft"]),
        ("--only-binary :all:\n--prefer-binary\npeft\npeft", ["peft"]),
        (f"--require-hashes\npeft==1 --hash=sha256:{DIGEST}\n-c more/one.txt\ntriton==3.1.0",
         [f"peft==1 --hash=sha256:{DIGEST}", "tensorboard==2 --constraint"]),
        ("\ufeffpeft", ["peft"]),
        ("# made in C:\\\npeft", ["peft"]),
        ("peft \\\n  # of adapters\ntrl", ["peft", "trl"]),
    ],
)  # fmt: skip
def test_a_file_is_read_as_pip_reads_it(write: Write, text: str, lines: list[str]) -> None:
    more = {"more/one.txt": "tensorboard==2", "more/two.txt": "trl\n-c bounds.txt", "more/bounds.txt": "protobuf<7"}
    place = write({**more, "mine.txt": text})

    rows = requirements.read_requirements([str(place / "mine.txt")], []).lines

    assert [*rows] == lines
    assert [str(requirements.parse_line(line)) for line in rows] == lines


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("--index-url https://evil.example/simple", "names an index, which is not asked"),
        ("--extra-index-url=https://evil.example/simple", "names an index, which is not asked"),
        ("-i https://evil.example/simple", "names an index, which is not asked"),
        ("-f https://evil.example/page.html", "names an index, which is not asked"),
        ("-ihttps://evil.example/simple", "names an index, which is not asked"),
        ("--only-binary :all: -i https://evil.example/simple", "names an index, which is not asked"),
        ("--prefer-binary --index-url=https://evil.example/simple", "names an index, which is not asked"),
        ("--extra-index-url https://download.pytorch.org/whl/cpu -i https://evil.example", "names an index"),
        ("--extra-index-url https://download.pytorch.org@evil.example/whl", "names an index, which is not asked"),
        ("-i https://[::1", "names an index, which is not asked"),
        ("-r more.txt \\\n --no-index", "names an index, which is not asked"),
        ("--index https://evil.example/simple", "is not followed"),  # pip takes the beginning of an option
        ("trl -i https://evil.example/simple", "that is not a requirement"),
        ("-", "is not followed"),
        ("-e .", "only wheels of an index or of a wheelhouse"),
        ("--only-binary :all: --editable=.", "only wheels of an index or of a wheelhouse"),
        ("mine @ ${PLACE}", "only wheels of an index or of a wheelhouse"),
        ("./local", "only wheels of an index or of a wheelhouse"),
        ("git+https://host.example/a/b", "only wheels of an index or of a wheelhouse"),
        ("mine-1.0-py3-none-any.whl", "only wheels of an index or of a wheelhouse"),
        ("mine @ https://host.example/mine-1.0.tar.gz", "only wheels of an index or of a wheelhouse"),
        ("mine @ file:///proc/version", "only wheels of an index or of a wheelhouse"),
        ("certifi @ file:///builder/certifi_1700501669400/certifi", "a file of another machine"),
        ("numpy[x] @ file:///D:/bld/numpy-1.26.4-cp311.whl ; python_version > '3'", "a file of another machine"),
        ("mine @ file://[::1", "only wheels of an index or of a wheelhouse"),
        ("mine @ file:///a%00b", "a file of another machine"),
        ("-r https://host.example/requirements.txt", "names an address"),
        ("--pre", "is not followed"),
        ("peft --config-settings=a=b", "is not followed"),
        ("peft==1 --hash=md5:0123", "no hash that a lock can use"),
        ("peft=1", "that is not a requirement"),
        ("-r none.txt", "no such file"),
    ],
)
def test_what_is_not_followed_is_refused_with_its_line(write: Write, line: str, fact: str) -> None:
    place = write({"mine.txt": f"trl\n{line}\n", "more.txt": "six"})

    with pytest.raises(UserFault, match=fact) as caught:
        requirements.read_requirements([str(place / "mine.txt")], [])

    assert caught.value.exit_code == 2 and caught.value.remedy


@pytest.mark.parametrize(
    ("text", "packages", "value"),
    [
        ("--require-hashes\npeft==1\n", [], "peft==1 ("),
        ("--prefer-binary --require-hashes\npeft==1\n", [], "peft==1 ("),
        ("peft==1\n-c more.txt\n", [], "peft==1 ("),
        (f"peft==1 --hash=sha256:{DIGEST}\n-r more.txt\n", [], "trl==1 ("),
        (f"peft==1 --hash=sha256:{DIGEST}\n--require-hashes\n", ["trl==1"], "trl==1 ("),
    ],
)
def test_a_file_that_asks_for_every_hash_is_followed(write: Write, text: str, packages: list[str], value: str) -> None:
    place = write({"mine.txt": text, "more.txt": "--require-hashes\ntrl==1"})

    with pytest.raises(UserFault, match="asks for the hash of each") as caught:
        requirements.read_requirements([str(place / "mine.txt")], packages)

    assert caught.value.value.startswith(value) and "--require-hashes" in caught.value.value
    with pytest.raises(UserFault) as caught:
        requirements.read_requirements([str(place / "mine.txt")], [*packages, "six==1"])
    assert caught.value.value.startswith(value.replace(" (", ", six==1 ("))


def test_a_line_is_called_by_the_number_that_an_editor_shows(write: Write) -> None:
    place = write({"mine.txt": f"peft==1 \\\n --hash=sha256:{DIGEST} \\\n --hash=sha256:{OTHER}\n\ntrl=1\n"})

    with pytest.raises(UserFault) as caught:
        requirements.read_requirements([str(place / "mine.txt")], [])

    assert caught.value.value.endswith("mine.txt, line 5: trl=1")


def test_brackets_without_end_are_no_requirement(write: Write) -> None:
    line = f"peft; {'(' * 10_000}"
    with pytest.raises(UserFault, match="that is not a requirement"):
        requirements.read_requirements([str(write({"mine.txt": line}) / "mine.txt")], [])
    with pytest.raises(ValueError, match="nested too deep"):
        requirements.parse_line(line)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff", "is not UTF-8"), (b"#" * (1 << 20), None), (b"#" * (1 + (1 << 20)), "is longer than 1 MiB")],
)
def test_a_file_of_requirements_is_a_text_of_no_great_length(tmp_path: Path, data: bytes, said: str | None) -> None:
    (path := tmp_path / "mine.txt").write_bytes(data)

    with pytest.raises(UserFault, match=f"a file of requirements {said}: {path}") if said else nullcontext():
        assert requirements.read_requirements([str(path)], []).lines == ()


@pytest.mark.parametrize("name", ["../d/mine.txt", "./mine.txt", "link.txt", "../e/mine.txt"])
def test_a_file_that_names_itself_is_read_once(write: Write, name: str) -> None:
    place = write({"d/mine.txt": f"peft==1\n-r {name}\n"})
    (place / "d/link.txt").symlink_to("mine.txt")
    (place / "e").symlink_to("d")

    assert requirements.read_requirements([str(place / "d/mine.txt")], []).lines == ("peft==1",)


def test_one_file_in_two_directories_names_what_is_beside_it(write: Write) -> None:
    place = write({"a/all.txt": "-r one.txt\n", "a/one.txt": "peft==1\n", "b/one.txt": "trl==1\n"})
    (place / "b/all.txt").hardlink_to(place / "a/all.txt")

    read = requirements.read_requirements([str(place / "a/all.txt"), str(place / "b/all.txt")], [])

    assert read.lines == ("peft==1", "trl==1")


@pytest.mark.parametrize(("count", "is_read"), [(50, True), (51, False)])
def test_files_name_each_other_so_often_at_most(write: Write, count: int, is_read: bool) -> None:
    chain = {f"{n}.txt": f"-r {n + 1}.txt\n" for n in range(count)}
    place = write({**chain, f"{count}.txt": "peft==1\n"})

    with nullcontext() if is_read else pytest.raises(UserFault, match="too deep"):
        assert requirements.read_requirements([str(place / "0.txt")], []).lines == ("peft==1",)


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/environ", "/sys/kernel/notes"])
def test_a_file_of_the_system_is_not_waited_for(path: str) -> None:
    with pytest.raises(UserFault, match="no such file"):
        requirements.read_requirements([path], [])


PROJECT = """
[project]
name = "Mine"
dependencies = ["peft>=0.10", "trl"]
[project.optional-dependencies]
train = ["tensorboard", "mine[extra-one]"]
extra_one = ["lightning"]
itself = ["mine[itself]"]
round = ["mine[itself,train,round]"]
[tool.uv.sources]
other = { git = "https://host.example/other" }
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "--extra-index-url https://download.pytorch.org.evil/",
            "PIP_EXTRA_INDEX_URL=https://download.pytorch.org.evil/",
        ),
        ("-i 'https://me:secret@host/simple'", "PIP_INDEX_URL=https://host/simple"),
        ("--index-url https://host/simple", "PIP_INDEX_URL=https://host/simple"),
        ("--pypi-url https://host/simple", "PIP_INDEX_URL=https://host/simple"),
        ("-f a", "PIP_FIND_LINKS=a"),
        ("--find-links=a b", "PIP_FIND_LINKS='a b'"),
        ("--no-index", "PIP_NO_INDEX=1"),
    ],
)
def test_an_index_of_a_file_is_named_as_it_is_told_to_pip(write: Write, line: str, said: str) -> None:
    with pytest.raises(UserFault) as caught:
        requirements.read_requirements([str(write({"mine.txt": line}) / "mine.txt")], [])

    assert f"{said} python build.py" in caught.value.remedy and "secret" not in str(caught.value)


FROZEN = f"""--extra-index-url https://download.pytorch.org/whl/cu121
-f https://download.pytorch.org/whl/torch_stable.html
--trusted-host=download.pytorch.org
bitsandbytes==0.44.1
flash_attn==2.6.3
nvidia-cublas-cu12==12.1.3.1
NVIDIA.cuda-runtime_cu12==12.1.105
nvidia-ml-py==12.560.30
torch==2.5.1+cu121 --hash=sha256:{DIGEST}
torchaudio==2.5.1+cpu --hash=sha256:{DIGEST}
torchvision==0.20.1+rocm6.2
torch-scatter==2.1.2+pt25cu121
mine==1.0+team.3
triton==3.1.0; platform_system == "Linux"
"""


def test_a_file_that_was_frozen_beside_a_gpu_is_read_for_cpus(write: Write) -> None:
    place = write({"mine.txt": f"{FROZEN}-c bounds.txt\n", "bounds.txt": "torch==2.5.1+cu121\ncuda-python<13"})

    wanted = requirements.read_requirements([str(place / "mine.txt")], ["torch==2.5.1+cu124"])

    assert [*wanted.lines] == [
        "bitsandbytes==0.44.1", "mine==1.0+team.3", "nvidia-ml-py==12.560.30", "torch-scatter==2.1.2", "torch==2.5.1",
        "torch==2.5.1 --constraint", f"torchaudio==2.5.1 --hash=sha256:{DIGEST}", "torchvision==0.20.1",
    ]  # fmt: skip
    asked, left_out, builds = wanted.notes
    assert asked.count("download.pytorch.org") == 4 and "line 1: --extra-index-url" in asked
    assert left_out.endswith(": cuda-python, flash-attn, nvidia-cublas-cu12, nvidia-cuda-runtime-cu12, triton")
    assert "torch==2.5.1+cu121, torch==2.5.1+cu124, torchvision==0.20.1+rocm6.2" in builds and "audio" not in builds


@pytest.mark.parametrize(
    "line", ["peft", "torch==2.5.1", "torch!=2.5.1+cpu", "mine==1.0+cubes", "nvidia-ml-py", "tritonclient"]
)
def test_what_is_for_any_machine_is_taken_as_it_stands(write: Write, line: str) -> None:
    wanted = requirements.read_requirements([str(write({"mine.txt": line}) / "mine.txt")], [])

    assert wanted == ((line.replace("+cpu", ""),), ())


@pytest.mark.parametrize(
    ("groups", "lines"),
    [("", ["peft>=0.10", "trl"]), ("[train]", ["lightning", "peft>=0.10", "tensorboard", "trl"]),
     ("[extra-one]", ["lightning", "peft>=0.10", "trl"]),
     ("[itself]", ["peft>=0.10", "trl"]),
     ("[itself,itself,train]", ["lightning", "peft>=0.10", "tensorboard", "trl"]),
     ("[round]", ["lightning", "peft>=0.10", "tensorboard", "trl"])],
)  # fmt: skip
def test_a_project_gives_its_dependencies_and_groups(write: Write, groups: str, lines: list[str]) -> None:
    place = write({"pyproject.toml": PROJECT})

    assert [*requirements.read_requirements([f"{place}/pyproject.toml{groups}"], []).lines] == lines


@pytest.mark.parametrize(
    ("text", "groups", "fact"),
    [
        (PROJECT, "[none]", r"no such optional group: .*: none \(it has: train, extra-one, itself, round\)"),
        ("[project]\nname = 'a'\ndependencies = ['peft']\n", "[a]", r"group: .*: a \(it has: none\)"),
        ("[tool.poetry.dependencies]\npeft = '*'\n", "", "states no dependencies"),
        ("[project]\ndependencies = 'peft'\n", "", "states no dependencies"),
        ("[project]\ndependencies = ['peft', 1]\n", "", "states no dependencies"),
        ("[project]\nname = 'a'\ndynamic = ['dependencies']\n", "", "known only to the program"),
        (PROJECT.replace("other =", "peft = {}\nTRL ="), "", r"places of its own.*: peft, trl \(tool"),
        ("[project\n", "", "states no dependencies"),
    ],
)
def test_a_project_that_cannot_be_followed_is_refused(write: Write, text: str, groups: str, fact: str) -> None:
    place = write({"pyproject.toml": text})

    with pytest.raises(UserFault, match=fact):
        requirements.read_requirements([f"{place}/pyproject.toml{groups}"], [])


@pytest.mark.parametrize("text", ["peft", "peft>=1", "peft==1.*", "peft==1,<2", "peft @ https://h/x.whl"])
def test_a_single_package_has_its_version(text: str) -> None:
    with pytest.raises(UserFault):
        requirements.read_requirements([], [text])


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("torch==2.5.0", True),
        ("torch<2 --constraint", True),
        ("transformers<5", True),
        ("torch>=2", False),
        ("torch==2.13.0+cpu", False),
        ('torch==2.5.0; python_version < "3.8"', False),
        ("peft", False),
    ],
)
def test_another_torch_than_the_images_is_refused_before_anything_is_asked(line: str, is_refused: bool) -> None:
    request = Request(torch="2.13.0", transformers="5.23.0", user_packages=(line,))
    if not is_refused:
        assert planner.make_plan(request, catalog.load()).user_packages == (line,)
        return
    with pytest.raises(UserFault, match="do not go with the image") as caught:
        planner.make_plan(request, catalog.load())

    assert line.split(" --")[0] in caught.value.value and " of the image" in caught.value.value


@pytest.mark.parametrize(
    ("typed", "lines", "remedy"),
    [
        ({}, ["torch==2.5.1"], "--torch 2.5.1 --transformers 5.19.0"),
        ({}, ["torch==2.5.1", "transformers==4.46.3"], "--torch 2.5.1 --transformers 4.46.3"),
        ({}, ["transformers<5"], "--torch 2.13.0 --transformers 4.57.6"),
        ({"torch": "2.4.0", "transformers": "4.46.3"}, ["torch==2.5.1"], "--torch 2.5.1 --transformers 5.19.0"),
        ({"torch": "2.4.0", "transformers": "4.46.3"}, ["transformers>=5"], "--torch 2.4.0 --transformers 5.14.1"),
        ({"transformers": "5.19.0", "as_of": "2026-10-20"}, ["torch>2.14.1"], None),
        ({}, ["transformers==4.46.0"], "--torch 2.13.0 --transformers 4.46.0"),  # withdrawn, and asked for
        ({"backend": "ccl", "torch": "2.4.0"}, ["torch~=2.5.0"], "--torch 2.5.1 --transformers 5.0.0"),
        ({}, ["torch==1.9.0"], None),
        ({}, ["torch==2.5.1", "transformers==4.99"], None),
    ],
)
def test_a_remedy_is_accepted_by_the_next_run(typed: dict[str, Any], lines: list[str], remedy: str | None) -> None:
    request = Request(user_packages=tuple(lines), **typed)
    with pytest.raises(UserFault, match="do not go with the image") as caught:
        planner.make_plan(request, catalog.load())

    first, _, second = caught.value.remedy.rpartition("without ")
    assert first == (f"{remedy}, or " if remedy else "")
    if remedy:
        words = remedy.split()
        plan = planner.make_plan(replace(request, torch=words[1], transformers=words[3]), catalog.load())
        assert plan.user_packages == tuple(lines)
    assert planner.make_plan(replace(request, user_packages=()), catalog.load()) and "among your packages" in second


@pytest.mark.parametrize("platform", PLATFORMS, ids=str)
def test_a_line_counts_by_the_machine_of_the_image(platform: Platform) -> None:
    here, there = (f'torch=={release}; platform_machine {sign} "{platform.machine}"' for release, sign in
                   (("2.13.0", "=="), ("2.5.0", "!=")))  # fmt: skip

    assert requirements.list_release_conflicts([here, there], {"torch": "2.13.0"}, "3.11", platform) == []


@pytest.mark.parametrize(
    ("line", "fits"),
    [("torch==2.13.0", True), ("torch==2.13.0+cpu", True), ("torch===2.13.0", True), ("torch===2.13.0+cpu", True),
     ("torch==2.13.0+cu130", False), ("torch>2.13.0", False)],
)  # fmt: skip
def test_a_line_may_name_the_build_of_torch_that_goes_in(line: str, *, fits: bool) -> None:
    assert (requirements.list_release_conflicts([line], {"torch": "2.13.0"}, "3.11", AMD64) == []) is fits


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        lines = requirements.read_requirements([], [text]).lines
    except Fault:
        return
    assert [str(requirements.parse_line(line)) for line in lines] == [*lines]


@given(
    st.lists(st.sampled_from(["peft", "-r", "--hash=sha256:" + DIGEST, "==1", "#", "\\\n", ";", " ", "@", "[", "\0"]))
)
def test_any_line_of_a_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_text("".join(words))
    try:
        lines = requirements.read_requirements([str(path)], []).lines
    except (Fault, OSError):  # a name of a file that is too long; the command line says it in three parts
        return
    assert [str(requirements.parse_line(line)) for line in lines] == [*lines]


@pytest.mark.parametrize("line", ["x.{}=1", "[tool.{}]", "y = {{ {}=1 }}"])
def test_a_project_of_many_keys_in_a_row_takes_no_memory(write: Write, line: str) -> None:
    place = write({"pyproject.toml": f"{line.format('.'.join(['a'] * 20_000))}\n{PROJECT}"})
    tracemalloc.start()
    try:
        with pytest.raises(UserFault, match="states no dependencies"):
            requirements.read_requirements([str(place / "pyproject.toml")], [])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
