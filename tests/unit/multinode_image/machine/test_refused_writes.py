"""Places that are full, or that a user may not write to."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.cpus import read_process_limit
from multinode_image.machine.limits import (
    MORE_FILES,
    MORE_PROCESSES,
    count_kills,
    explain_error,
    explain_memory,
    explain_refused,
    find_refused,
    find_target,
    has_killed,
    remember_kills,
    try_beside,
)
from multinode_image.machine.places import (
    check_output,
    choose_caches,
    explain_closed,
    find_closed,
    list_caches,
    list_lost,
    move_models,
    read_mounts,
)

LIMIT = 4096


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a limit that nobody feels: a real one ends the tests, whose log is a file."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (LIMIT, 2 * LIMIT))


def save(f: Path | str) -> None:
    """Fail as torch.save does."""
    writer = object()
    raise RuntimeError(f"unexpected pos 704 vs 598 of {type(writer)}")


def fail(f: Path | str) -> RuntimeError:
    try:
        save(f)
    except RuntimeError as error:
        return error
    raise AssertionError


def wrap(error: Exception) -> Exception:
    """Return an error that hides the one that it came from, whose frames count."""
    try:
        raise ValueError("the checkpoint was not written") from error
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(("size", "number"), [(LIMIT, errno.EFBIG), (10, None)], ids=["reached", "not reached"])
def test_the_limit_of_a_file_is_found(size: int, number: int | None, tmp_path: Path, limited: None) -> None:
    path = tmp_path / "optimizer.pt"
    path.write_bytes(bytes(size))

    refused = find_refused(fail(path))
    assert (refused and refused.errno) == number
    assert refused is None or refused.filename == str(path)


def test_without_a_file_the_limit_is_taken_for_the_cause(limited: None) -> None:
    refused = find_refused(RuntimeError("basic_ios::clear: iostream error"))

    assert refused is not None and refused.errno == errno.EFBIG


def test_the_kernel_is_asked_again_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "optimizer.pt"
    path.write_bytes(b"half")

    def refuse(number: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    assert find_refused(wrap(fail(path))) is None, "nothing is refused here"
    monkeypatch.setattr(os, "fsync", refuse)
    refused = find_refused(wrap(fail(str(path))))
    assert refused is not None and refused.errno == errno.EDQUOT
    assert [entry.name for entry in tmp_path.iterdir()] == ["optimizer.pt"], "no probe is left"


@pytest.mark.parametrize("value", ["no such file", 7, None])
def test_what_is_no_file_is_no_target(value: object) -> None:
    assert find_target(fail(value)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("called", ["f", "file", "filename", "path", "name"])
def test_a_file_is_found_whatever_a_function_calls_it(called: str, tmp_path: Path) -> None:
    target, space = tmp_path / "optimizer.pt", dict[str, Any]()
    target.touch()
    exec(f"def write({called}): raise OSError", space)

    with pytest.raises(OSError) as caught:
        space["write"](str(target))
    assert find_target(caught.value) == str(target)


def test_a_directory_that_is_gone_says_so(tmp_path: Path) -> None:
    refused = try_beside(str(tmp_path / "gone/optimizer.pt"))

    assert refused is not None and refused.errno == errno.ENOENT


@pytest.mark.parametrize(
    ("number", "fact"),
    [
        (errno.EFBIG, "rank 3 has reached the limit of a file's size of 2,097,152 bytes for each process"),
        (errno.EDQUOT, "the disk quota of rank 3 is used up"),
        (errno.EACCES, ""),
    ],
)
def test_a_number_of_the_kernel_is_said_in_words(number: int, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 << 20, 2 << 20))

    said = explain_refused(number, "/workspace/output/optimizer.pt", "rank 3")
    assert said is None if not fact else said is not None and said.fact.startswith(fact)


V2 = {"/proc/self/cgroup": "0::/\n"}
V1 = {"/proc/self/cgroup": "8:pids:/docker/1\n4:memory:/docker/1\n0::/\n"}
ROOT = "/sys/fs/cgroup"
MEMORY = {f"{ROOT}/memory.max": "838860800\n"}
PIDS_V1 = {f"{ROOT}/pids/pids.max": "20\n", f"{ROOT}/pids/pids.events": "max 2\n", f"{ROOT}/pids/pids.current": "19\n"}
PIDS_V2 = {f"{ROOT}/pids.max": "20\n", f"{ROOT}/pids.events": "max 2\n", f"{ROOT}/pids.current": "19\n"}


def events(directory: str = "", oom: int = 0, kills: int = 0) -> dict[str, str]:
    return {f"{ROOT}{directory}/memory.events": f"low 0\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"}


@pytest.mark.parametrize(
    ("files", "count"),
    [
        pytest.param({**V2, **events("", 3, 2)}, 2, id="v2"),
        pytest.param({"/proc/self/cgroup": "0::/job/step\n", **events("/job/step", 0, 1), **events("/job", 4, 5)}, 1,
                     id="a step of a job"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, 1, id="v1"),
        pytest.param({**V1, f"{ROOT}/memory/memory.oom_control": "under_oom 0\n"}, 0, id="an old kernel"),
        pytest.param({**V2, f"{ROOT}/memory.events": "oom_kill x\n\n"}, 0, id="no number"),
        pytest.param({}, 0, id="no cgroup"),
    ],
)  # fmt: skip
def test_what_was_killed_for_want_of_memory_is_counted(files: dict[str, str], count: int) -> None:
    assert count_kills(files.get) == count


@pytest.mark.parametrize("before", [0, 1])
def test_what_an_earlier_job_met_is_not_of_this(before: int) -> None:
    earlier, now = {**V2, **events("", 0, before)}, {**V2, **events("", 0, before + 1)}
    environ = {"MULTINODE_KILLED": "9", **remember_kills(earlier.get)}  # which another container may hand on
    assert not has_killed(earlier.get, environ)
    assert has_killed(now.get, environ)


@pytest.mark.parametrize(("files", "limit"), [({**V1, **PIDS_V1}, 20), ({**V2, **PIDS_V2}, 20), (V2, None)])
def test_the_limit_of_processes_is_read(files: dict[str, str], limit: int | None) -> None:
    assert read_process_limit(files.get) == limit


@pytest.mark.parametrize(
    ("number", "files", "remedy", "value"),
    [
        (errno.EAGAIN, {**V1, **PIDS_V1}, MORE_PROCESSES, "20 of this container"),
        (errno.EAGAIN, V2, MORE_PROCESSES, "of this user"),
        (errno.EMFILE, {}, MORE_FILES, ""),
        (errno.EACCES, {}, "check the file or program that is named", "Permission denied"),
    ],
)
def test_an_error_of_a_limit_is_named(number: int, files: dict[str, str], remedy: str, value: str) -> None:
    said = explain_error(OSError(number, os.strerror(number)), files.get)

    assert said.remedy == remedy and value in said.value and said.code == 1


TOTAL = {"/proc/meminfo": "MemTotal: 8388608 kB\n"}


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({**V2, **MEMORY}, "the memory limit of this container, 800 MB, was reached"),
        (TOTAL, "the memory of this machine, 8.0 GB, or a limit above the container ran out"),
        ({}, "the memory of this machine or a limit above the container ran out"),
    ],
)
def test_the_memory_that_ran_out_is_named(files: dict[str, str], value: str) -> None:
    assert explain_memory(files.get) == value


INFO = "22 27 0:21 / / rw - overlay overlay rw\n23 22 0:22 / /workspace/my\\040output rw - ext4 /dev/sda rw\n"


def test_what_nothing_is_mounted_at_is_lost() -> None:
    points = [point for point, _, _ in read_mounts(INFO)]
    assert points == ["/", "/workspace/my output"]
    lost = list_lost(["/workspace/my output/qa", "/workspace/my outputs", "/"], points)
    assert lost == ["/workspace/my outputs", "/"]
    assert list(read_mounts(None)) == []


@pytest.mark.parametrize(
    ("environ", "bad", "there", "moved"),
    [
        ({"HF_HOME": "/w/hf"}, "", "", {}),
        ({"HF_HOME": "/w/hf"}, "/w/hf", "", {"HF_HOME": "/h/.cache/huggingface"}),
        ({"HF_HOME": "/w"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface", "HF_HUB_CACHE": "/w/hub"}),
        ({"HF_HOME": "/w", "HF_HUB_CACHE": "/m"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface"}),
        ({"HF_HOME": "/w", "HUGGINGFACE_HUB_CACHE": "/m"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface"}),
        ({}, "", "", {}),
        ({}, "/h/.cache/huggingface", "", {}),
        ({"HF_HOME": "/h/.cache/huggingface"}, "/h/.cache/huggingface", "", {}),
    ],
)
def test_caches_that_cannot_be_written_are_moved(
    environ: dict[str, str], bad: str, there: str, moved: dict[str, str]
) -> None:
    assert choose_caches(environ, "/h", lambda path: path != bad, lambda path: path == there) == moved


@pytest.mark.parametrize(
    ("environ", "transformers", "moved"),
    [
        ({"TRANSFORMERS_CACHE": "/pvc/models"}, "5.23.0", {"HF_HUB_CACHE": "/pvc/models"}),
        ({"TRANSFORMERS_CACHE": "/pvc/models"}, "4.57.6", {}),
        ({"TRANSFORMERS_CACHE": "/pvc/models", "HF_HUB_CACHE": "/hub"}, "5.23.0", {}),
        ({}, "5.23.0", {}),
    ],
)
def test_models_stay_where_the_guide_puts_them(
    environ: dict[str, str], transformers: str, moved: dict[str, str]
) -> None:
    assert {setting.name: setting.value for setting in move_models(environ, transformers)} == moved


@pytest.mark.parametrize(
    ("environ", "transformers", "caches"),
    [
        ({"HF_HOME": "/h"}, "5.23.0", {"caches": "/h"}),
        ({"HOME": "/home/me"}, "5.23.0", {"caches": "/home/me/.cache/huggingface"}),
        ({"HF_HOME": "/h", "TRANSFORMERS_CACHE": "/m"}, "4.57.6", {"models": "/m", "data sets": "/h/datasets"}),
        ({"HF_HOME": "/h", "TRANSFORMERS_CACHE": "/m"}, "5.23.0", {"caches": "/h"}),
        (
            {"HF_HOME": "/h", "HF_HUB_CACHE": "/m", "HF_DATASETS_CACHE": "/d"},
            "5.0.0",
            {"models": "/m", "data sets": "/d"},
        ),
    ],
)
def test_where_models_and_data_sets_are_kept(
    environ: dict[str, str], transformers: str, caches: dict[str, str]
) -> None:
    assert list_caches(environ, transformers) == caches


def test_what_another_user_has_left_in_a_cache_is_found(tmp_path: Path) -> None:
    names = ("a/.locks", "a/datasets", "a/hub/.locks", "a/modules", "a/xet", "c/hub")
    of_others = [f"{tmp_path}/{name}" for name in names]
    others = [f"{tmp_path}/b/datasets", f"{tmp_path}/b/hub/models--x"]
    for name in (*of_others, *others):
        Path(name).mkdir(parents=True, exist_ok=True)
    closed = [*of_others, *others, f"{tmp_path}/b"]
    left = find_closed(
        [f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/c", f"{tmp_path}/none"], lambda path: path not in closed
    )
    assert left == of_others  # b is not ours at all


def test_what_is_closed_is_named_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    assert explain_closed("closed", str(tmp_path)).remedy.startswith("mount a directory")
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    mine = explain_closed("closed", str(tmp_path), "another")
    assert mine.value == f"{tmp_path} of uid {uid}, and this is uid {uid + 1}"
    assert f"--user {uid}:0" in mine.remedy and f"chown -R {uid + 1}" in mine.remedy and "another" in mine.remedy
    assert f"-v results:{tmp_path}/a/b" in explain_closed("closed", f"{tmp_path}/a/b").remedy


@pytest.mark.parametrize(("path", "owner"), [("here", 7), ("here/gone", 7), ("gone", 8), ("gone/deeper", 8)])
def test_of_what_is_not_there_yet_the_owner_is_that_of_what_it_would_be_in(
    path: str, owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, uid = os.lstat, os.getuid()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "lstat", lambda path: look(path) and SimpleNamespace(st_uid=7 if path == "here" else 8))

    assert explain_closed("closed", path).value == f"{path} of uid {owner}, and this is uid {uid}"


def test_each_directory_that_is_written_to_is_checked(tmp_path: Path) -> None:
    ours = f"{tmp_path}/_multinode"
    (tmp_path / "_multinode").mkdir()
    check_output((str(tmp_path), ours), lambda _: True, "--output_dir")
    with pytest.raises(Refusal, match="_multinode"):
        check_output((str(tmp_path), ours), lambda path: path != ours, "--output_dir")
