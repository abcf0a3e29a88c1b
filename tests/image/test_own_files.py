"""An image with a script and a directory of the user's own: started without a mount, and built again from its lock."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from images.layers.entrypoint_layer import GID, UID
from images.lock import lockfile
from images.plan.plan import Request
from tests.support.documents import page
from tests.support.harness import EXAMPLES, HARDENED, assert_three_parts, build, built, call, run

# It imports a module of the other directory, and trains.
SCRIPT = """
import torch
from module import SEED
model = torch.nn.Linear(2, 1)
model(torch.ones(1, 2)).sum().backward()
torch.optim.SGD(model.parameters(), 0.1).step()
print("trained with", SEED)
"""
MARK, OTHER = b"SEED = 41  # of this project", b"SEED = 42  # of this project"


class Derived(NamedTuple):
    """An image, what was printed of it, the options that it was made with, and its layout."""

    name: str
    answer: dict[str, Any]
    files: tuple[str, ...]
    layout: Path


@pytest.fixture(scope="module")
def derived(image: str, module_path: Path, module_tag: Callable[[str], str]) -> Derived:
    """Build one above the layers of the default image, as a user does."""
    root = module_path / "project"
    (root / "data").mkdir(parents=True)
    (root / "module.py").write_bytes(MARK + b"\n")
    (root / "data/large.bin").write_bytes(b"1")
    (root / ".dockerignore").write_text("data\n")
    name, layout, script = module_tag("files"), module_path / "own", module_path / "train.py"
    script.write_text(SCRIPT)
    files = ("--script", str(script), "--workdir", str(root))
    answer = built("--examples", str(EXAMPLES), *files, "--tag", name, "--load", "--output", f"{layout}/")
    return Derived(name, answer, files, layout)


def test_the_script_trains_without_a_mount(derived: Derived) -> None:
    done = run(derived.name, "train.py", options=HARDENED)

    assert done.code == 0 and "trained with 41" in done.out, done.text


def test_files_are_as_copy_leaves_them_and_those_of_the_image_are_as_they_were(derived: Derived) -> None:
    done = run(
        derived.name, "sh", "-c", "touch output/a .cache/a b && stat -c '%n %a %u:%g %Y' module.py train.py . data"
    )

    assert done.out.splitlines() == [
        "module.py 644 0:0 1704067200", "train.py 644 0:0 1704067200", done.out.splitlines()[-1],
    ]  # fmt: skip
    assert done.out.splitlines()[-1].startswith(f". 775 {UID}:{GID}") and "data" in done.err


def test_they_are_in_the_lock_the_sbom_and_the_provenance_and_are_the_last_layer(derived: Derived) -> None:
    lock = lockfile.read_lock(lockfile.path_for(derived.layout).read_text(), "the lock", Request())
    bill = json.loads(build("sbom", str(derived.layout)).out)
    stated = json.loads(build("provenance", str(derived.layout)).out)["predicate"]["buildDefinition"]

    assert lock.user_files and [row.path for row in lock.user_files] == ["module.py", "train.py"]
    assert derived.answer["layers"][-1]["name"] == "your files"
    listed = {part["name"]: part["hashes"] for part in bill["components"] if part["type"] == "file"}
    assert listed["/workspace/train.py"] == [{"alg": "SHA-256", "content": lock.user_files[1].sha256}]
    named = {row["name"]: row["digest"]["sha256"] for row in stated["resolvedDependencies"]}
    assert named["workspace/module.py"] == lock.user_files[0].sha256


@pytest.mark.slow  # as test_own_packages.py rebuilds one from its lock
def test_it_is_built_again_from_its_lock_and_the_same_files(derived: Derived, module_path: Path) -> None:
    copied = module_path / "copied"
    shutil.copytree(module_path / "project", copied, copy_function=shutil.copyfile)

    verdict = build("verify", derived.name, "--json", *derived.files[:2], "--workdir", str(copied))

    assert verdict.code == 0 and json.loads(verdict.out)["digest"] == derived.answer["digest"]


@pytest.mark.slow  # two more rebuilds of the image
def test_a_changed_byte_is_found_by_the_name_of_its_file(derived: Derived, module_path: Path) -> None:
    changed = module_path / "changed"
    shutil.copytree(module_path / "project", changed)
    (changed / "module.py").write_bytes(OTHER + b"\n")
    saved = module_path / "saved.tar"
    assert call(["docker", "save", "--output", str(saved), derived.name]).code == 0
    saved.write_bytes(saved.read_bytes().replace(MARK, OTHER))

    of_files = build("verify", derived.name, *derived.files[:2], "--workdir", str(changed))
    of_image = build("verify", str(saved))

    assert_three_parts(of_files, 2, "module.py: sha256:", "--script and --workdir")
    assert_three_parts(of_image, 1, "layer your files, /workspace/module.py: sha256:", "who changed it")


@pytest.mark.slow
def test_elsewhere_the_files_come_from_the_bundle_or_are_asked_for(derived: Derived, module_path: Path) -> None:
    lock, bundle = str(lockfile.path_for(derived.layout)), str(module_path / "bundle.tar")
    assert build("bundle", "--lock", lock, "--output", bundle).code == 0
    elsewhere = {"XDG_CACHE_HOME": str(module_path / "elsewhere")}
    no = ("--no-load", "--output", str(module_path / "again.tar"))

    missing = build("--lock", lock, "--offline", *no, env=elsewhere)
    again = built("--offline", bundle, *no, env=elsewhere)

    assert_three_parts(missing, 1, "/workspace/train.py (a file of your own)", "--script FILE or --workdir DIR")
    assert again["digest"] == derived.answer["digest"]


@pytest.mark.slow
def test_a_hook_of_the_users_own_runs_in_a_training(image: str, tmp_path: Path) -> None:
    """As the page has it; one that fails ends nothing."""
    shown = re.search(r"(?ms)^ *```python\n(.*?)^ *```", page("docs/image.md").text)
    assert shown
    (tmp_path / "torch.py").write_text(textwrap.dedent(shown[1]))
    (tmp_path / "json.py").write_text("def after_import(module): raise ValueError('mine')")
    (tmp_path / "train.py").write_text("import json, torch\nprint(torch.tensor([1e-323], dtype=torch.float64) == 0)")
    tmp_path.chmod(0o755)
    mounts = ("--volume", f"{tmp_path}:/etc/multinode/hooks:ro", "--volume", f"{tmp_path}/train.py:/workspace/train.py")

    done = run(image, "train.py", options=mounts)

    assert (done.code, done.out.strip()) == (0, "tensor([True])")
    assert "/etc/multinode/hooks/json.py does not work here: ValueError('mine')" in done.err
