"""What is given to other programs: to uv for some plans, and to podman for each thing that an engine does.

Each call has its words, variables, standard input and the files that it names. What differs between machines is a word
in capitals. skopeo's words are in tests/unit/images/deliver/test_skopeo.py.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from unittest import mock

from images.deliver.engine import PODMAN, CommandLine
from images.host import process
from images.lock import uv
from images.pip_config import Sources
from images.plan import catalog, planner, requirements
from images.plan.plan import Request
from images.platforms import ARM64
from images.store.store import Store
from tests.golden.data import as_json
from tests.support import locks
from tests.support.finished_images import SMALL, finished

PIPS = Sources(
    index="https://me:secret@mirror.example/simple", extra=("https://other.example/simple",), links=("/wheels",),
    trusted=("mirror.example",), certificate="/ca.pem", client_certificate="/me.pem",
    proxy="http://proxy.example:3128",
)  # fmt: skip
USUAL = Request(torch="2.13.0", transformers="5.23.0")
OF_USER = ("peft==0.18.0", f"six<1.17 {requirements.CONSTRAINT}")
ASKED: Mapping[str, tuple[Request, Sources]] = {
    "usual": (USUAL, Sources()),
    "pip's settings": (USUAL, PIPS),
    "no index": (replace(USUAL, platform=ARM64), Sources(no_index=True, links=("/wheels",))),
    "oneCCL": (Request(torch="2.4.0", transformers="4.46.0"), PIPS),
    "oneCCL from a page of links": (Request(torch="2.0.1", transformers="4.40.0", base="debian"), Sources()),
    "packages of the user's": (replace(USUAL, user_packages=OF_USER), Sources()),
}
ANSWER = 'lock-version = "1.0"\ncreated-by = "uv"\npackages = []\n'
ENVIRON = {"HOME": "/home/me", "COLUMNS": "80"}
# Variables of a shell, some of which uv is given.
TYPED = {**ENVIRON, **dict.fromkeys((
    "FORCE_COLOR", "CLICOLOR_FORCE", "RUST_LOG", "UV_INDEX", "UV_CONSTRAINT", "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS", "UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES", "http_proxy", "HTTPS_PROXY",
    "all_proxy", "no_proxy",
), "typed")}  # fmt: skip


def calls_of(do: Callable[[], object], places: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what programs are given while something is done; `places` are texts, and the words for them."""
    calls: list[dict[str, Any]] = []

    def shown(text: str) -> str:
        for place, word in places.items():
            text = text.replace(place, word)
        return re.sub(r"STORE/aside/[^/]+/", "ASIDE/", text)

    def run(
        command: Sequence[str], env: Mapping[str, str], _: str, feed: IO[bytes] | None = None, **__: object
    ) -> process.Result:
        files = {Path(word).name: Path(word).read_text() for word in command if word.endswith("/pyproject.toml")}
        texts = {"input": feed.read().decode() if feed else "", **files}
        calls.append({
            "words": [shown(word) for word in command], "variables": {**env},
            **{name: shown(text).splitlines() for name, text in texts.items()},
        })  # fmt: skip
        return process.Result(0, ANSWER, "")

    with mock.patch.object(process, "run", run), mock.patch("secrets.token_hex", lambda _: "NUMBER"):
        do()
    return calls


def of_uv(
    request: Request, sources: Sources, store: Store, ask: Callable[..., object] = uv.ask
) -> list[dict[str, Any]]:
    """Return the calls for a question about a plan."""
    plan = planner.make_plan(request, catalog.load())
    wanted = (*plan.requirements, *requirements.parse_wanted(plan.user_packages))
    asked, context = uv.with_bindings(plan, sources, wanted), locks.context(store, sources, TYPED)
    places = {str(store.root): "STORE", uv._uv(): "UV", sys.executable: "PYTHON"}
    return calls_of(lambda: ask(plan, asked, context, wanted), places)


def of_podman(place: Path, store: Store) -> list[dict[str, Any]]:
    """Return the calls for all that an engine does."""
    podman, image = CommandLine(PODMAN, ENVIRON), finished(store, SMALL)
    (place / "given").write_text("given")

    def do() -> None:
        podman.load(image, store)
        podman.run(image, ["python3", "-c", "x"])
        podman.run(image, ["python3", "-c", "x"], place / "given", place / "out")
        podman.save("a:1", place / "saved")

    return calls_of(do, {str(store.root): "STORE", str(place): "PLACE"})


def produce() -> dict[str, str]:
    """Return one file for each program."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        store = Store(place / "store")
        asked = {name: of_uv(request, sources, store) for name, (request, sources) in ASKED.items()}
        asked["who requires what"] = of_uv(USUAL, Sources(), store, uv.ask_requirers)
        return {"uv.json": as_json(asked), "podman.json": as_json(of_podman(place, store))}
