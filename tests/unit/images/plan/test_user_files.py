"""The user's own files: which of them go into an image, what is kept of each, and what is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest

from images.host.errors import UserFault
from images.layers.entrypoint_layer import DIRECTORIES
from images.layers.examples import PLACE
from images.plan import catalog, matrix, planner, user_files
from images.plan.plan import Request
from images.plan.user_files import WORKSPACE, UserFile
from images.store.blobs import CHUNK

Make = Callable[[Mapping[str, str | None]], Path]
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n"
TOKEN = "hf_" + "aB3" * 12


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return what makes a directory of files, as path -> text; after `-> ` a link, and None a directory."""

    def write(files: Mapping[str, str | None]) -> Path:
        root = tmp_path / "mine"
        root.mkdir(exist_ok=True)
        for name, text in files.items():
            place = root / name
            (place if text is None else place.parent).mkdir(parents=True, exist_ok=True)
            if text is not None and text.startswith("-> "):
                place.symlink_to(text.removeprefix("-> "))
            elif text is not None:
                place.write_text(text)
                place.chmod(0o700 if text.startswith("#!") else 0o600)
        return root

    return write


def row(path: str, text: str, *, executable: bool = False) -> UserFile:
    return UserFile(path, sha256(text.encode()).hexdigest(), executable)


def test_scripts_and_a_directory_are_below_the_working_directory(make: Make) -> None:
    root = make({"src/a.py": "a", "run": "#!/bin/sh", "empty": None, "data/x.csv": "x", ".dockerignore": "data\n"})
    (root.parent / "train.py").write_text("t")

    places = user_files.read_user_files([str(root.parent / "train.py"), str(root / "data/x.csv")], str(root))

    assert [*places] == [
        row("run", "#!/bin/sh", executable=True),
        row("src/a.py", "a"),
        row("train.py", "t"),
        row("x.csv", "x"),
    ]
    assert [place.name for place in places.values()] == ["run", "a.py", "train.py", "x.csv"]


def test_times_owners_and_the_order_of_a_directory_say_nothing(make: Make, tmp_path: Path) -> None:
    one = user_files.read_user_files([], str(make({"b": "1", "a": "2", "c": "-> a"})))
    for path in (tmp_path / "mine").iterdir():
        os.utime(path, (1, 1), follow_symlinks=False)
    (tmp_path / "mine/a").chmod(0o666)
    (tmp_path / "mine").rename(tmp_path / "other")

    assert [*user_files.read_user_files([], str(tmp_path / "other"))] == [*one]


def test_links_in_a_directory_stay_links_and_one_that_is_named_is_what_it_leads_to(make: Make) -> None:
    root = make({"a/b": "1", "a/c": "-> ../d", "d": "-> a/b", "e": "-> a", "f": "-> nowhere"})

    rows = [*user_files.read_user_files([str(root / "d")], None), *user_files.read_user_files([], str(root))]

    links = {linked.path: linked.target for linked in rows[1:] if linked.target}
    assert rows[0] == row("d", "1") and links == {"a/c": "../d", "d": "a/b", "e": "a", "f": "nowhere"}


def test_the_same_file_may_be_named_twice(make: Make) -> None:
    root = make({"train.py": "1"})

    assert len(user_files.read_user_files([str(root / "train.py")] * 2, str(root))) == 1


@pytest.mark.parametrize("name", [".venv/pyvenv.cfg", ".git/config", "src/__pycache__/a.pyc"])
def test_what_every_directory_has_beside_the_files_stays_out(make: Make, name: str) -> None:
    root = make({"train.py": "1", name: TOKEN, f"{name}-beside/x": KEY})

    assert [one.path for one in user_files.read_user_files([], str(root))] == ["train.py"]


MINE: dict[str, str | None] = {"train.py": "1"}
REFUSED: dict[str, tuple[dict[str, str | None], list[str], str, str]] = {
    "a link that leaves": ({"a": "-> ../x"}, [], "a link leads out of its directory", "a line `a`"),
    "a link that leaves through another": (
        {"a/b/c": "1", "l": "-> a/b", "m": "-> l/../../.."}, [], "a link leads out of its directory", "`m`",
    ),
    "a link that leaves through one to a place above": (
        {"a/b/l": "-> ../..", "m": "-> a/b/l/../x"}, [], "a link leads out of its directory", "`m`",
    ),
    "an absolute link": ({"a": "-> /etc/passwd"}, [], "a link leads out of its directory", "/etc/passwd"),
    "a place for results": ({**MINE, "output/model.bin": "1"}, [], "the image's own", "`output/model.bin`"),
    "the examples": ({"transformers": "1"}, [], "the image's own", "`transformers`"),
    "variables": ({**MINE, "src/.env": "1"}, [], "a file of secrets", "--env-file"),
    "variables of one place": ({**MINE, ".env.local": "1"}, [], "a file of secrets", "`.env.local`"),
    "variables by another name": ({**MINE, "Prod.ENV": "1"}, [], "a file of secrets", "`Prod.ENV`"),
    "logins of Windows": ({**MINE, "_NetRC": "1"}, [], "a file of secrets", "`_NetRC`"),
    "logins of registries": ({**MINE, "a/.docker/config.json": "{}"}, [], "a file of secrets", "config.json"),
    "logins of a cloud": ({**MINE, ".config/gcloud/access.db": "1"}, [], "a file of secrets", "access.db"),
    "a store of keys": ({**MINE, "me.P12": "1"}, [], "a file of secrets", "`me.P12`"),
    "keys of ssh": ({**MINE, ".ssh/config": "1"}, [], "a file of secrets", "`.ssh/config`"),
    "a key by its content": ({"id": KEY}, [], "a file has a secret in it", "id (a private key)"),
    "a token in a script": ({"train.py": f'login("{TOKEN}")'}, [], "a file has a secret in it", "train.py (a token of"),
    "two of one name": ({"a/x.py": "1", "b/x.py": "2"}, ["a/x.py", "b/x.py"], "two files", "b/x.py (/workspace/x.py)"),
    "a script that is a directory": ({"a/x": "1"}, ["a"], "that is a directory", "--workdir "),
    "a script that is not there": (MINE, ["a"], "there is no such file", "--script FILE"),
    "a control character": ({"a\nb": "1"}, [], "cannot be in an image", "control character"),
    "a name that cannot be printed": ({"a\u00a0b": "1"}, [], "cannot be in an image", "cannot be printed"),
    "the name of a whiteout": ({".wh.a": "1"}, [], "cannot be in an image", "would hide"),
    "nothing": ({"a": "1", ".dockerignore": "*"}, [], "nothing of that directory", ".dockerignore"),
    "no pattern": ({**MINE, ".dockerignore": "!\n"}, [], "a line is no pattern", ".dockerignore: !"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "scripts", "fact", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_or_may_not_be_in_an_image_is_refused(
    make: Make, files: dict[str, str | None], scripts: list[str], fact: str, said: str
) -> None:
    root = make(files)

    with pytest.raises(UserFault) as caught:
        user_files.read_user_files([str(root / name) for name in scripts], None if scripts else str(root))

    assert fact in caught.value.fact and said in str(caught.value) and caught.value.remedy
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("at", [CHUNK - 10, 3 * CHUNK])
def test_a_secret_is_found_wherever_it_is(make: Make, at: int) -> None:
    with pytest.raises(UserFault, match="has a secret in it"):
        user_files.read_user_files([], str(make({"a.ipynb": " " * at + TOKEN})))


@pytest.mark.parametrize("name", [".env.example", "example.env", "environment", "keys.py", "docker/config.json"])
def test_what_only_looks_like_a_secret_is_none(make: Make, name: str) -> None:
    text = f"hf_trainer_arguments_parser_for_all_of_us = 1\nPEM = '-----BEGIN PRIVATE KEY-----'\n{TOKEN[:12]}"

    assert [one.path for one in user_files.read_user_files([], str(make({name: text})))] == [name]


@pytest.mark.parametrize(
    ("typed", "fact", "remedy"),
    [("nowhere", "there is no such directory", "--workdir DIR"), ("file", "that is a file", "--script ")],
)
def test_a_directory_that_is_none_is_refused(make: Make, typed: str, fact: str, remedy: str) -> None:
    with pytest.raises(UserFault, match=fact) as caught:
        user_files.read_user_files([], str(make({"file": "1"}) / typed))

    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize("typed", ["/proc/kmsg", "/proc/self/environ"])
def test_a_file_of_the_system_is_no_script(typed: str) -> None:
    with pytest.raises(UserFault, match=r"that is not a file|no such file"):
        user_files.read_user_files([typed], None)


def test_a_pipe_is_not_waited_for(make: Make) -> None:
    os.mkfifo(make(MINE) / "pipe")

    with pytest.raises(UserFault, match="neither a file nor a link"):
        user_files.read_user_files([], str(make({})))
    with pytest.raises(UserFault, match="that is not a file"):
        user_files.read_user_files([str(make({}) / "pipe")], None)


@pytest.mark.parametrize("name", ["train.py", ".dockerignore"])
def test_a_file_that_may_not_be_read_is_named(make: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    root = make({name: "x"})
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserFault, match="cannot be read") as caught:
        user_files.read_user_files([], str(root))

    assert caught.value.value == f"{root / name} (Permission denied)"


@pytest.mark.parametrize(("last", "is_opened"), [("!src", False), ("!**/a.py", True)])
def test_only_what_may_hold_a_file_has_to_be_readable(
    make: Make, monkeypatch: pytest.MonkeyPatch, last: str, is_opened: bool
) -> None:
    def look(path: str) -> object:
        if Path(path).name == "DB":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    scandir, root = os.scandir, make({"src/a.py": "1", "DB/x": "1", ".dockerignore": f"*\n{last}"})
    monkeypatch.setattr(os, "scandir", look)
    with pytest.raises(UserFault, match="DB") if is_opened else nullcontext():
        assert [one.path for one in user_files.read_user_files([], str(root))] == ["src/a.py"]


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_list_of_what_stays_out_is_read_to_its_end_or_refused(make: Make, more: int, is_read: bool) -> None:
    end = "\ndata\n"
    root = make({"a": "1", "data/x": "1", ".dockerignore": "#" * ((1 << 20) - len(end) + more) + end})

    with nullcontext() if is_read else pytest.raises(UserFault, match="too long"):
        assert [one.path for one in user_files.read_user_files([], str(root))] == ["a"]


@pytest.mark.parametrize(("limit", "value"), [("MOST", "more than 1 files"), ("LARGEST", "2 bytes, not 1")])
def test_more_than_an_image_should_have_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, limit: str, value: str
) -> None:
    monkeypatch.setattr(user_files, limit, 1)

    with pytest.raises(UserFault, match=value) as caught:
        user_files.read_user_files([], str(make({"a": "1", "b": "2"})))

    assert "-v $PWD/data" in caught.value.remedy


def test_the_places_of_the_image_itself_are_all_that_it_has_there() -> None:
    ours = {*DIRECTORIES, PLACE} - {WORKSPACE}

    assert {place.split("/")[1] for place in ours if place.startswith(f"{WORKSPACE}/")} == {*user_files.OURS}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([UserFile("../a", "0" * 64)], "leaves its directory"),
        ([UserFile("/a", "0" * 64)], "is absolute"),
        ([UserFile("a", "0" * 64)] * 2, "is not one file"),
        ([UserFile("a")], "is not one file"),
        ([UserFile("a", "0" * 64, target="b")], "is not one file"),
        ([UserFile("a", target="/etc")], "leads out"),
        ([UserFile("a/b", target="../../c")], "leads out"),
        ([UserFile("a", target="b\n")], "leads to a name that cannot be in a layer"),
        ([UserFile("a", target="b/" * 2000)], "leads to a name that cannot be in a layer"),
    ],
)
def test_rows_of_a_lock_that_are_no_files_are_refused(rows: list[UserFile], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        user_files.require_rows(rows)


def test_a_plan_names_them_and_so_does_the_name_of_the_image(make: Make) -> None:
    def plan(text: str) -> dict[str, object]:
        asked = Request(user_files=user_files.read_user_files([], str(make({"train.py": text, "a/b": "1"}))))
        return matrix.plan_fields(planner.make_plan(asked, catalog.load()))

    one, other = plan("1"), plan("2")

    assert one["user_files"] == ("a/b", "train.py")
    assert re.fullmatch(r"multinode:torch[\d.]+-transformers[\d.]+-[0-9a-f]{8}", str(one["tag"]))
    assert one["tag"] not in (other["tag"], planner.make_plan(Request(), catalog.load()).tag)


@pytest.mark.parametrize(("largest", "fits"), [(8, True), (7, False)])
def test_of_too_many_bytes_the_largest_file_is_named(
    make: Make, monkeypatch: pytest.MonkeyPatch, largest: int, fits: bool
) -> None:
    monkeypatch.setattr(user_files, "LARGEST", largest)
    root = make({"a": "1", "b": "123456", "c": "1"})

    with nullcontext() if fits else pytest.raises(UserFault, match=rf"8 bytes, not 7; the largest is {root}/b"):
        user_files.read_user_files([], str(root))
