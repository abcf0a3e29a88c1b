"""The scripts where programs are missing, do not answer or are interrupted; programs of the test stand for them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.harness import ROOT, Done, assert_three_parts, call, wait_for

# What the scripts may use on any machine.
TOOLS = (
    "bash", "cat", "chmod", "dirname", "env", "grep", "id", "mkdir", "mktemp", "python3", "rm", "sed", "setsid",
    "sleep", "tail", "timeout", "touch", "xargs",
)  # fmt: skip
ANSWERS = "#!/bin/sh\nexit 0\n"
NO_DAEMON = "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n"
PODMAN = '#!/bin/sh\ncase "$*" in *NetworkBackend*) echo netavark ;; esac\n'
APT_GET = '#!/bin/sh\necho "apt-get $*"\n'


def fill(place: Path, programs: dict[str, str]) -> str:
    """Put these programs and the machine's usual tools into a directory, for PATH."""
    for name in TOOLS:
        program = shutil.which(name, path="/usr/bin:/bin")
        assert program
        (place / name).symlink_to(program)
    for name, text in programs.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return str(place)


def run(place: Path, script: str, programs: dict[str, str], environ: dict[str, str] | None = None) -> Done:
    """Run lines of shell after scripts/lib.sh, with these programs and the machine's usual tools in PATH."""
    lines = f"set -euo pipefail; source scripts/lib.sh; python3() {{ :; }}; {script}"
    return call(["bash", "-c", lines], env={"PATH": fill(place, programs), **(environ or {})}, seconds=60)


@pytest.mark.parametrize(
    ("programs", "engine"),
    [
        ({"docker": ANSWERS}, "docker"),
        ({"docker": ANSWERS, "podman": PODMAN}, "docker"),
        ({"docker": NO_DAEMON, "podman": PODMAN}, "podman"),
        ({"podman": PODMAN}, "podman"),
    ],
)
def test_the_engine_is_the_one_that_answers(tmp_path: Path, programs: dict[str, str], engine: str) -> None:
    names = {"aardvark-dns": ANSWERS, "iptables": ANSWERS}

    done = run(tmp_path, 'install_missing() { :; }; find_engine; echo "$engine"', {**programs, **names})

    assert (done.code, done.out) == (0, f"{engine}\n")


def test_a_client_without_a_daemon_has_the_daemon_installed(tmp_path: Path) -> None:
    """The client that is there is no reason to leave the daemon out."""
    script = "id() { echo 0; }; start_docker() { false; }; find_engine"

    done = run(tmp_path, script, {"docker": NO_DAEMON, "apt-get": APT_GET})

    assert done.code == 1
    assert "== installing docker.io iptables" in done.err
    assert "error: no container engine: no Docker daemon answers, and no podman\n  try: start Docker" in done.err


def test_an_address_where_nobody_answers_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "find_engine", {"docker": NO_DAEMON, "podman": PODMAN}, {"DOCKER_HOST": "unix:///nowhere"})

    assert done.code == 1
    assert done.err == ("\nerror: no Docker daemon answers: DOCKER_HOST=unix:///nowhere\n  try: unset DOCKER_HOST\n")


def test_who_may_not_install_is_given_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, "id() { echo 1000; }; install_missing one=sh two=cat three=nowhere", {"apt-get": APT_GET})

    assert done.code == 1
    assert done.err == "\n== not installed: one three; as root on Debian or Ubuntu: apt-get install one three\n"


def test_nothing_is_installed_twice(tmp_path: Path) -> None:
    done = run(tmp_path, f"install_missing one=cat two={ROOT}/pyproject.toml", {"apt-get": APT_GET})

    assert (done.code, done.text) == (0, "")


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "venv\n"),
        ("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n", "venv\n"),  # what ^C leaves of an environment
        (ANSWERS, ""),
    ],
)
def test_an_environment_without_pip_is_completed(tmp_path: Path, left: str | None, said: str) -> None:
    place = tmp_path / "clone/.venv/bin/python"
    place.parent.mkdir(parents=True)
    for path, text in ((place, left), (tmp_path / "whole", ANSWERS)):
        if text:
            path.write_text(text)
            path.chmod(0o755)
    (tmp_path / "programs").mkdir()
    function = f'python3() {{ echo "$2"; cat {tmp_path}/whole > {place}; chmod +x {place}; }}'

    done = run(tmp_path / "programs", f'{function}; here={tmp_path}/clone; virtual_environment ""', {})

    assert (done.code, done.out) == (0, said)
    assert (tmp_path / "clone/.venv/installed").exists()


@pytest.mark.parametrize(
    ("settings", "code", "used"),
    [
        ("", 0, "uv"),
        ("global.extra-index-url='https://more/simple'", 0, "uv"),
        ("", 1, "uv pip"),
        ("global.index-url='https://mirror/simple'", 0, "pip"),
        (":env:.index-url='https://mirror/simple'", 0, "pip"),
        ("install.no-index='1'", 0, "pip"),
    ],
)
def test_packages_come_from_the_index_of_pip(tmp_path: Path, settings: str, code: int, used: str) -> None:
    """It may be a mirror, the only one that may be asked; uv is faster and takes the one of everybody."""
    place = tmp_path / "clone/.venv/bin"
    place.mkdir(parents=True)
    for name, text in (
        (
            "python",
            f'#!/bin/sh\n[ "$3" != config ] || echo "{settings}"\ncase "$*" in *--editable*) echo pip ;; esac\n',
        ),
        ("uv", f"#!/bin/sh\necho uv\nexit {code}\n"),
    ):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    (tmp_path / "programs").mkdir()

    done = run(tmp_path / "programs", f'here={tmp_path}/clone; virtual_environment ""', {})

    assert (done.code, done.out.split()) == (0, used.split())


@pytest.mark.parametrize("script", ["demo", "smoke", "test"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_answered_before_anything_is_done(tmp_path: Path, script: str, flag: str) -> None:
    done = call([f"scripts/{script}", flag], env={"PATH": fill(tmp_path, {})}, seconds=20)

    assert (done.code, done.err) == (0, "")
    assert f"\n  scripts/{script}" in done.out and "set -e" not in done.out and "#" not in done.out


@pytest.mark.parametrize(
    ("words", "value", "remedy"),
    [
        (("demo", "--dry-run"), "--dry-run", "scripts/demo"),
        (("smoke",), "no image is named: scripts/smoke", "scripts/smoke IMAGE"),
        (("smoke", "--image"), "--image", "scripts/smoke IMAGE"),
        (("smoke", "IMAGE", "nerdctl"), "nerdctl", "scripts/smoke IMAGE docker, or scripts/smoke IMAGE podman"),
        (("smoke", "IMAGE", "docker", "--bf16"), "--bf16", "scripts/smoke IMAGE docker"),
    ],
)
def test_what_a_script_does_not_know_is_refused(
    tmp_path: Path, words: tuple[str, ...], value: str, remedy: str
) -> None:
    done = call([f"scripts/{words[0]}", *words[1:]], env={"PATH": fill(tmp_path, {})}, seconds=20)

    assert_three_parts(done, 2, value, remedy)


def test_smoke_prepares_podman_before_it_runs_anything(tmp_path: Path) -> None:
    """Without that nothing finds another container by its name, and two nodes wait for each other."""
    said = tmp_path / "said"
    podman = f'#!/bin/sh\necho "$*" >> {said}\n[ "$1" != run ] || exit 7\n{PODMAN}'
    path = fill(tmp_path, {"podman": podman, "apt-get": APT_GET, "iptables": ANSWERS})

    done = call(["scripts/smoke", "IMAGE", "podman"], env={"PATH": path}, seconds=60)

    lines = said.read_text().splitlines()
    assert done.code == 7
    first = lines.index("run --rm --network none IMAGE smoke --bf16")
    assert "info --format {{.Host.NetworkBackend}}" in lines[:first]


# What runs until it is interrupted, half a minute at most, and then takes a while to clean up.
LAST = "i=0; while [ $((i += 1)) -lt 300 ]; do sleep 0.1; done\n"
PYTEST = f"""#!/bin/sh
trap 'sleep 0.5; [ -d "$TMPDIR" ] && echo "cleans up" >> said; exit 2' INT
echo "$*" >> said
{LAST}"""
DOCKER = '#!/bin/sh\n[ "$1" != images ] || echo "engine" >> said\n'


def clone(place: Path, programs: dict[str, str]) -> list[str]:
    """Copy scripts/test to a place that has all it needs, and return how it is started there."""
    (place / "scripts").mkdir()
    for name in ("test", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, place / "scripts")
    (place / "pyproject.toml").touch()
    (place / ".venv/bin").mkdir(parents=True)
    for extras in ("test", "test,browser"):
        (place / f".venv/installed[{extras}]").touch()
    names = ("apt-get", "ruff", "mypy", "shellcheck", "check-jsonschema")
    path = fill(place / ".venv/bin", {**dict.fromkeys(names, ANSWERS), "docker": DOCKER, **programs})
    return ["env", "--default-signal=INT", f"PATH={path}", f"TMPDIR={place}", "bash", "scripts/test"]


def has_lines(path: Path, number: int) -> bool:
    """Wait until a file has so many lines."""
    return wait_for(lambda: path.exists() and len(path.read_text().splitlines()) >= number, 30)


def test_tests_that_are_interrupted_clean_up_before_their_engine_is_gone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with subprocess.Popen([*clone(tmp_path, {"pytest": PYTEST}), "x"], cwd=tmp_path, start_new_session=True) as child:
        assert has_lines(said, 1)
        os.killpg(child.pid, signal.SIGINT)  # ^C in a terminal
        assert child.wait(60) == 130

    assert said.read_text().splitlines() == ["x", "cleans up", "engine"]
    assert not list(tmp_path.glob("tmp.*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs: run scripts/test as root")
@pytest.mark.parametrize("fails", [True, False], ids=["pip fails", "pip is interrupted"])
def test_what_is_installed_meanwhile_is_not_left_behind(tmp_path: Path, fails: bool) -> None:
    pip = "exit 1" if fails else "kill -INT $PPID; exit 1"
    programs = {
        "apt-get": f'#!/bin/sh\nsleep 1\necho "$2" >> {tmp_path}/said\n',
        "python": f'#!/bin/sh\n[ "$3" = show ] || {{ {pip}; }}\n',
    }
    command = clone(tmp_path, programs)
    (tmp_path / ".venv/installed[test]").unlink()

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)

    assert done.returncode == (1 if fails else 130)
    assert (tmp_path / "said").read_text().splitlines()[-3:] == ["update", "install", "engine"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["x", "--pdb"], "x --pdb"), (["--all", "x"], "-m  x"), ([], "--durations=40 --numprocesses=3")],
)
def test_tests_end_with_the_code_of_pytest_which_has_the_terminal(tmp_path: Path, words: list[str], said: str) -> None:
    command = [*clone(tmp_path, {"pytest": '#!/bin/sh\necho "pytest $*"\ncat\nexit 5\n'}), *words]

    done = subprocess.run(command, cwd=tmp_path, input="typed\n", capture_output=True, text=True, timeout=60)

    first, second, *beside = done.stdout.splitlines()
    assert first.startswith(f"pytest {said}") and second == "typed"
    assert beside == ([] if words else ["pytest tests/unit"])
    assert done.returncode == 5


@pytest.mark.parametrize("wrong", ["pytest tests/unit", "mypy "])
def test_what_is_wrong_beside_the_tests_fails_after_them(tmp_path: Path, wrong: str) -> None:
    program = f'#!/bin/sh\nsaid="${{0##*/}} $*"\necho "$said"\n[ "$said" != "{wrong}" ]\n'
    programs = dict.fromkeys(("pytest", "mypy"), program)

    done = subprocess.run(clone(tmp_path, programs), cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout.splitlines()[1:]) == (1, ["pytest tests/unit", "mypy "])
