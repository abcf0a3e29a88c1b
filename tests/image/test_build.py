"""The builder from outside: the answers, sameness, formats, and what happens when things go wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from images.host.store import default_root
from tests.support.harness import EXAMPLES, IMAGES, ROOT, build, built, call

SMALL = ("--tasks", "text-generation", "--examples", "none", "--no-load")


def store_with(folder: Path, *kinds: str) -> dict[str, str]:
    """Make a store that has what was downloaded, and these kinds of records with what they name."""
    real = default_root(os.environ)
    fresh = folder / "multinode"
    (fresh / "records").mkdir(parents=True)
    for blob in (real / "blobs").glob("*/*"):
        if kinds or blob.name != "blob":
            (fresh / "blobs" / blob.parent.name).mkdir(parents=True, exist_ok=True)
            _link(blob, fresh / "blobs" / blob.parent.name / blob.name)
    for kind in kinds:
        shutil.copytree(real / "records" / kind, fresh / "records" / kind)
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o777)
    return {"XDG_CACHE_HOME": str(folder)}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def test_json_says_what_was_built(image: str) -> None:
    answer = built("--examples", str(EXAMPLES), "--tag", image)

    assert answer.keys() == {"image", "id", "digest", "archive", "layers", "size", "unpacked", "seconds"}
    assert answer["image"] == image
    assert answer["archive"] is None
    assert [layer["name"] for layer in answer["layers"]][:3] == ["debian base", "intel runtime", "torch"]
    assert all(layer["reused"] and layer["size"] > 0 for layer in answer["layers"])
    inspected = json.loads(call(["docker", "inspect", image]).out)[0]
    assert inspected["Id"] == answer["id"]
    assert inspected["Config"]["Labels"]["multinode.torch"] == "2.13.0+cpu"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Lend a folder that every user may enter; pytest closes its own again when another session starts."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_two_empty_stores_two_users_one_image(image: str, open_folder: Path) -> None:
    """As root with one job; as nobody with two, another folder, umask and time zone."""
    first = built(*SMALL, "--jobs", "1", env=store_with(open_folder / "a", "debs", "bases"))
    home = open_folder / "home"
    home.mkdir()
    home.chmod(0o777)
    env = {**os.environ, **store_with(open_folder / "b", "debs", "bases"), "TZ": "Asia/Tokyo", "HOME": str(home)}

    second = json.loads(_as_nobody([*SMALL, "--json", "--jobs", "2"], home, env))

    for answer in (first, second):
        assert not any(layer["reused"] for layer in answer["layers"][1:])
    assert [layer["digest"] for layer in first["layers"]] == [layer["digest"] for layer in second["layers"]]
    assert (first["id"], first["digest"]) == (second["id"], second["digest"])


def _as_nobody(options: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run build.py as another user, with Debian's Python, which everybody may start, and our packages."""
    packages = sysconfig.get_path("purelib")
    command = ["/usr/bin/python3", str(ROOT / "build.py"), *options]
    user: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    done = subprocess.run(
        command, cwd=cwd, env={**env, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}, umask=0o077,
        capture_output=True, text=True, timeout=600, check=False, **user,
    )  # fmt: skip
    print(done.stderr)
    assert done.returncode == 0
    return str(done.stdout)


def test_both_lines_of_transformers_build(image: str) -> None:
    answer = built("--torch", "2.13.0", "--transformers", "4.57.6", "--examples", "none", "--no-load")
    newest = built("--examples", str(EXAMPLES), "--tag", image, "--no-load")

    digests = {layer["name"]: layer["digest"] for layer in answer["layers"]}
    for layer in newest["layers"]:
        shared = layer["name"] in ("debian base", "intel runtime", "torch")
        assert (digests[layer["name"]] == layer["digest"]) is shared or layer["name"] == "libraries"


@pytest.fixture(scope="module")
def archive(module_path: Path) -> Path:
    path = module_path / "image.tar"
    built(*SMALL, "--tag", f"{IMAGES}:archive", "--output", str(path))
    return path


def test_docker_and_podman_load_the_archive(archive: Path) -> None:
    assert call(["docker", "load", "--input", str(archive)]).code == 0
    assert call(["docker", "run", "--rm", "--network", "none", f"{IMAGES}:archive", "true"]).code == 0
    call(["docker", "rmi", "--force", f"{IMAGES}:archive"])
    if shutil.which("podman"):
        assert call(["podman", "load", "--input", str(archive)]).code == 0
        assert call(["podman", "rmi", "--force", f"{IMAGES}:archive"]).code == 0


def test_skopeo_and_umoci_read_it(archive: Path, tmp_path: Path) -> None:
    if not shutil.which("skopeo") or not shutil.which("umoci"):
        pytest.skip("skopeo and umoci are not installed")
    for transport in ("docker-archive", "oci-archive"):
        assert call(["skopeo", "inspect", f"{transport}:{archive}"]).code == 0
    layout = tmp_path / "layout"
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")
    assert call(["umoci", "stat", "--image", f"{layout}:archive"]).code == 0
    assert call(["umoci", "unpack", "--image", f"{layout}:archive", str(tmp_path / "bundle")]).code == 0
    assert (tmp_path / "bundle/rootfs/usr/local/bin/torchrun").is_file()


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_layout_is_in_registry_form(tmp_path: Path, compression: str) -> None:
    layout = f"{tmp_path}/layout/"
    answer = built(*SMALL, "--output", layout, "--compression", compression)

    entry = json.loads((tmp_path / "layout/index.json").read_text())["manifests"][0]
    assert entry["digest"] == answer["digest"]
    if shutil.which("skopeo"):
        inspected = call(["skopeo", "inspect", "--raw", f"oci:{layout}"])
        assert {row["mediaType"].rpartition("+")[2] for row in json.loads(inspected.out)["layers"]} == {compression}


def test_no_key_no_log_no_identity_in_any_layer(archive: Path) -> None:
    with tarfile.open(archive) as image:
        names = [info.name for info in image if info.name.startswith("blobs/")]
        for name in names:
            blob = image.extractfile(name)
            assert blob
            if blob.read(1) == b"{":
                continue
            blob.seek(0)
            with tarfile.open(fileobj=blob, mode="r|") as layer:
                _no_secret(layer)


def _no_secret(layer: tarfile.TarFile) -> None:
    for info in layer:
        assert "ssh_host_" not in info.name
        assert info.name not in ("etc/machine-id", "etc/resolv.conf", "etc/hostname", ".dockerenv")
        assert not info.name.startswith(
            ("var/log/", "var/lib/apt/lists/", "var/cache/apt/", "root/.ssh", "root/.cache")
        )
        file = layer.extractfile(info) if info.isreg() and info.size < 100_000 else None
        if file and not info.name.endswith((".py", ".pyc", ".so", ".md")):
            assert b"PRIVATE KEY-----\n" not in file.read(), info.name


WRONG = [
    (["--colour"], 2, "--colour", "build.py --help"),
    (["--jobs", "0"], 2, "0", "--jobs 2"),
    (["--torch", "2.13.x"], 2, "2.13.x", "--torch 2.13.0"),
    (["--transformers", "4.57.9"], 2, "4.57.9", "--transformers 4.57.6"),
    (["--tasks", "question-answer"], 2, "question-answer", "--tasks question-answering"),
    (["--wheelhouse", "/nowhere"], 2, "/nowhere", "--wheelhouse"),
    (["--examples", "/nowhere.tar.gz", "--no-load"], 2, "/nowhere.tar.gz", "--examples"),
    ([*SMALL, "--output", "/nowhere/image.tar"], 2, "/nowhere", "--output"),
]


@pytest.mark.parametrize(("options", "code", "value", "remedy"), WRONG)
def test_a_wrong_request_gets_three_parts(options: list[str], code: int, value: str, remedy: str) -> None:
    told(build(*options), code, value, remedy)


def told(done: Any, code: int, value: str, remedy: str) -> None:
    assert done.code == code
    first, second = done.err.strip().splitlines()[-2:]
    assert first.startswith("error: ")
    assert value in first
    assert second.startswith("  try: ")
    assert remedy in second
    assert "Traceback" not in done.err


def test_no_debian_tools(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    env = {**store_with(tmp_path / "s"), "PATH": str(tools)}

    done = build(*SMALL, env=env)

    told(done, 1, "mmdebstrap", "apt-get install mmdebstrap")


def test_no_engine(tmp_path: Path) -> None:
    env = {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "PATH": "/nowhere"}

    told(build("--load", env=env), 1, "docker.sock", "start Docker")


def test_without_an_engine_the_bases_python_imports_every_package(archive: Path, tmp_path: Path) -> None:
    lock = json.loads(Path(f"{archive}.lock.json").read_text())
    version = next(row["version"] for row in lock["artifacts"] if row["name"] == "shellingham")
    info = f"shellingham-{version}.dist-info"
    files = {"shellingham.py": "raise ImportError('as this test wants it')\n"}
    files |= {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: shellingham\nVersion: {version}\n"}
    files |= {f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files |= {f"{info}/RECORD": "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))}
    with zipfile.ZipFile(tmp_path / f"shellingham-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)

    env = {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "PATH": "/nowhere"}
    done = build(*SMALL, "--wheelhouse", str(tmp_path), env=env)

    told(done, 1, ": shellingham (ImportError: as this test wants it)", "--wheelhouse")


def test_an_unreachable_index(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    env |= {"PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": "/dev/null"}

    told(build(*SMALL, env=env), 1, "http://127.0.0.1:9/simple/", "--wheelhouse")


class Folder(SimpleHTTPRequestHandler):
    """Serve files, without a log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Truncated(BaseHTTPRequestHandler):
    """Announce more than is sent."""

    def do_GET(self) -> None:
        """Answer ten bytes of a thousand."""
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"0123456789")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def truncating() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Truncated)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_truncated_download(truncating: str) -> None:
    done = build("--examples", f"{truncating}/v5.tar.gz", "--no-load")

    told(done, 1, f"{truncating}/v5.tar.gz", "--examples PATH")
    assert not list((default_root(os.environ) / "aside").iterdir())


def test_a_full_disk_and_then_room(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    assert call(["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(disk)]).code == 0
    try:
        told(build(*SMALL, env={"XDG_CACHE_HOME": str(disk)}), 1, str(disk), "make room")
        assert not list((disk / "multinode/aside").iterdir())
        assert call(["mount", "-o", "remount,ro", str(disk)]).code == 0
        told(build(*SMALL, env={"XDG_CACHE_HOME": str(disk)}), 1, str(disk), "set XDG_CACHE_HOME")
    finally:
        call(["umount", str(disk)])


def test_a_damaged_wheel_in_the_store_is_fetched_again(image: str, tmp_path: Path) -> None:
    env = store_with(tmp_path, "debs", "bases", "bytecode", "layers")
    wheel = next((tmp_path / "multinode/blobs").glob("*/certifi-*.whl"))
    wheel.unlink()
    wheel.write_bytes(b"damaged")

    assert build(*SMALL, env=env).code == 0
    assert wheel.read_bytes() != b"damaged"


def test_interrupted_twice_then_whole(image: str, tmp_path: Path) -> None:
    env = {**os.environ, **store_with(tmp_path, "debs", "bases", "bytecode")}
    for _ in range(2):
        command = [
            "env",
            "--default-signal=INT",
            sys.executable,
            "build.py",
            *SMALL,
        ]  # a job in the background ignores it
        with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE) as child:
            assert child.stderr
            while b"writing layers" not in child.stderr.readline():
                pass
            child.send_signal(signal.SIGINT)
            said = child.stderr.read().decode()
            assert child.wait(60) == 130
        assert "Traceback" not in said
        assert "interrupted" in said
    assert build(*SMALL, env=env).code == 0
    assert not list((tmp_path / "multinode/aside").iterdir())
