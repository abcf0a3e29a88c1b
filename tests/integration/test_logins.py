"""Which login of a file counts for a registry: skopeo is asked, and finds the same."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from images.deliver import logins
from images.oci.reference import Remote
from tests.support.programs import needs

pytestmark = needs("skopeo")

REGISTRY = "host.example:5000"
NAMES = (
    REGISTRY, f"https://{REGISTRY}", f"http://{REGISTRY}/", f"https://{REGISTRY}/v2/", f"{REGISTRY}/v2/",
    "host.example", "https://host.example/v1/", f"ftp://{REGISTRY}", f"//{REGISTRY}",
)  # fmt: skip
HUB = (
    "docker.io",
    "index.docker.io",
    "https://index.docker.io/v1/",
    "https://registry-1.docker.io/v2/",
    "hub.docker.io",
)


def of_skopeo(registry: str, file: Path) -> str | None:
    command = ["skopeo", "login", "--get-login", "--authfile", str(file), registry]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def of_ours(registry: str, file: Path) -> str | None:
    login = logins.find(Remote(registry, "team/image"), {**os.environ, "REGISTRY_AUTH_FILE": str(file)})
    return base64.b64decode(login["auth"]).decode().partition(":")[0] if login else None


@pytest.mark.parametrize(
    ("registry", "names"),
    [
        *[(REGISTRY, (name,)) for name in NAMES],
        *[(REGISTRY, (REGISTRY, name)) for name in NAMES[1:]],
        *[("docker.io", (name,)) for name in HUB],
        *[(REGISTRY, pair) for pair in combinations(NAMES[4:], 2)],
    ],
)
def test_skopeo_takes_the_same_login(tmp_path: Path, registry: str, names: tuple[str, ...]) -> None:
    file = tmp_path / "auth.json"
    auths = {
        name: {"auth": base64.b64encode(f"user{number}:secret".encode()).decode()} for number, name in enumerate(names)
    }
    file.write_text(json.dumps({"auths": auths}))

    assert of_ours(registry, file) == of_skopeo(registry, file)
