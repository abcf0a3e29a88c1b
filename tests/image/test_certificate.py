"""A certificate mounted at /etc/multinode/ca.pem: everything inside trusts it, and still trusts the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import certificates, wheels
from tests.support.harness import IMAGES, call, run

# A server in the same container, for containers of the tests may have no network.
SERVER = """\
import http.server, os, ssl, sys, threading

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/given/server.pem", "/given/server.key")
handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"https://localhost:{server.server_port}/"
"""
ASK = {
    "urllib": "import urllib.request; print(urllib.request.urlopen(url).status)",
    "requests": "import requests; print(requests.get(url).status_code)",
    "httpx": "import httpx; print(httpx.get(url).status_code)",
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate authority, and a server's certificate that it has signed."""
    folder = tmp_path_factory.mktemp("given")
    folder.chmod(0o755)
    certificates.certificate(folder, authority=certificates.authority(folder))
    return folder


def test_every_client_trusts_it(image: str, given: Path) -> None:
    script = SERVER + "".join(
        f"try:\n    {line}\nexcept Exception as e:\n    print(type(e))\n" for line in ASK.values()
    )
    options = ["--volume", f"{given}:/given:ro", "--tmpfs", "/tmp"]
    options += ["--volume", f"{given}/ca.pem:/etc/multinode/ca.pem:ro"]

    done = run(image, "python3", "-c", script, options=options)

    assert done.out.count("200") == len(ASK)


def test_the_systems_certificates_stay(image: str, given: Path) -> None:
    count = "grep -c BEGIN.CERTIFICATE $SSL_CERT_FILE /etc/ssl/certs/ca-certificates.crt | cut -d: -f2"
    options = ("--volume", f"{given}/ca.pem:/etc/multinode/ca.pem:ro")

    done = run(image, "bash", "-c", f"{count}; stat -c %a $SSL_CERT_FILE", options=options)

    ours, systems, mode = done.out.split()
    assert int(ours) == int(systems) + 1 > 100
    assert mode == "600"


INSTALL = 'subprocess.run(["pip", "install", "--no-index", "--find-links", url, "extra"], check=True)\n'


def test_pip_trusts_it_while_an_image_from_this_one_is_built(image: str, given: Path, tmp_path: Path) -> None:
    """As docs/image.md says it for a network behind a company's proxy."""
    for name in ("ca.pem", "server.pem", "server.key"):
        shutil.copy(given / name, tmp_path)
    wheels.write(tmp_path, "extra", "1.0", {"extra.py": b""})
    (tmp_path / "ask.py").write_text(f"import subprocess\n{SERVER}{INSTALL}")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nUSER root\nWORKDIR /given\nCOPY . .\n"
        "COPY ca.pem /etc/multinode/ca.pem\nRUN multinode python3 ask.py\n"
    )
    tag = f"{IMAGES}:certified"
    try:
        assert call(["docker", "build", "--network", "none", "--tag", tag, str(tmp_path)]).code == 0
    finally:
        call(["docker", "rmi", "--force", tag])
