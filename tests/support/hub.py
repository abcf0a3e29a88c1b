"""A hub on a local address: repositories of ours, served as huggingface_hub, datasets, evaluate and nltk ask for them.

What is spoken (huggingface_hub/hf_api.py, file_download.py, hf_file_system.py): /api/KIND/NAME[/revision/REV] for a
repository, tree/REV and paths-info/REV for its files, [KIND/]NAME/resolve/REV/FILE with X-Repo-Commit, ETag and ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.web import Reply, Request, listening

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REVISIONS = ("main", COMMIT)
API = re.compile(r"/api/(models|datasets|spaces)/([^/]+/[^/]+|[^/]+)(?:/(revision|tree|paths-info)/([^/]+)/?(.*))?")
FILE = re.compile(r"/(?:(datasets|spaces)/)?([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)")
# Where nltk has its data (nltk/downloader.py, DEFAULT_URL).
NLTK = "raw.githubusercontent.com"


@dataclass
class Hub:
    """What is served: files by `KIND/OWNER/NAME`, and pages of other hosts by their path.

    gated: repositories that are open to `token` alone; private: those that are hidden from everybody else; cut: a file
    that breaks in the middle; requests: what was asked for.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    pages: dict[str, bytes] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    token: str = "hf_open"  # of this server
    cut: str | None = None
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    url: str = ""


def as_json(value: Any) -> Reply:
    return Reply(200, json.dumps(value).encode(), {"Content-Type": "application/json", "X-Repo-Commit": COMMIT})


def refuse(status: int, code: str, said: str) -> Reply:
    return Reply(status, json.dumps({"error": said}).encode(), {"X-Error-Code": code, "X-Error-Message": said})


def etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def answer(hub: Hub, request: Request) -> Reply:
    """Return the answer to one request."""
    path, headers = unquote(request.path), request.headers
    hub.requests.append((request.method, path, headers))
    if match := API.fullmatch(path):
        kind, name, what, revision, rest = match.groups()
        return check(hub, f"{kind}/{name}", headers, revision) or describe(
            hub, f"{kind}/{name}", what, rest, request.body
        )
    if match := FILE.fullmatch(path):
        kind, name, revision, file = match.groups()
        repository = f"{kind or 'models'}/{name}"
        return check(hub, repository, headers, revision, content=True) or send(hub, repository, file, headers)
    page = hub.pages.get(path)
    return Reply(404) if page is None else Reply(200, page)


def check(
    hub: Hub, repository: str, headers: Mapping[str, str], revision: str | None, *, content: bool = False
) -> Reply | None:
    """Return why a repository is not shown; None if it is. A gated one is described to everybody."""
    allowed = headers.get("Authorization") == f"Bearer {hub.token}"
    if repository not in hub.repositories or (repository in hub.private and not allowed):
        # The hub does not say whether what nobody may see is there.
        known = "Authorization" in headers
        return refuse(404 if known else 401, "RepoNotFound", "Repository not found")
    if content and repository in hub.gated and not allowed:
        return refuse(403 if "Authorization" in headers else 401, "GatedRepo", f"Access to {repository} is restricted")
    if revision not in (None, *REVISIONS):
        return refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return None


def describe(hub: Hub, repository: str, what: str | None, rest: str, body: bytes) -> Reply:
    """Return a repository, the files below a directory of it, or some of its files."""
    files = hub.repositories[repository]
    if what == "tree":
        below = f"{rest.rstrip('/')}/" if rest else ""
        names = [name for name in files if name.startswith(below)]
        return as_json([*entries(files, sorted(list_parents(names, below))), *entries(files, names)])
    if what == "paths-info":
        asked = json.loads(body)["paths"]
        return as_json(entries(files, [path for path in asked if path in files or path in list_parents(files, "")]))
    siblings = [{"rfilename": name} for name in files]
    name = repository.partition("/")[2]
    more = {"gated": "manual" if repository in hub.gated else False, "private": repository in hub.private}
    plain = {"_id": etag(name.encode())[:24], "id": name, "sha": COMMIT, "siblings": siblings, "tags": []}
    return as_json({**plain, **more})


def list_parents(names: Any, below: str) -> set[str]:
    """Return the directories below a directory that hold these files."""
    parents = {parent.as_posix() for name in names for parent in Path(name).parents}
    return {parent for parent in parents if parent != "." and parent.startswith(below)}


def entries(files: Mapping[str, bytes], names: Any) -> list[dict[str, Any]]:
    """Return files and directories as the hub lists them."""
    return [
        {"type": "file", "path": name, "size": len(files[name]), "oid": etag(files[name])[:40]}
        if name in files
        else {"type": "directory", "path": name, "size": 0, "oid": etag(name.encode())[:40]}
        for name in names
    ]


def send(hub: Hub, repository: str, name: str, headers: Mapping[str, str]) -> Reply:
    """Return a file, or the part of it that is asked for."""
    data = hub.repositories[repository].get(name)
    if data is None:
        return refuse(404, "EntryNotFound", f"{name} does not exist")
    more = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(data)}"', "Accept-Ranges": "bytes"}
    start = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("Range", ""))
    first, last = (int(start[1]), int(start[2] or len(data))) if start else (0, len(data))
    if start and first >= len(data):
        return Reply(416, headers={"Content-Range": f"bytes */{len(data)}"})
    part = data[first : last + 1]
    if start:
        more["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
    return Reply(206 if start else 200, part, more, len(part) // 2 if name == hub.cut else None)


@contextmanager
def serving(address: str, certificate: Path | None = None) -> Iterator[Hub]:
    """Serve on a free port of an address, also as a proxy that is every host itself, if there is a certificate."""
    hub = Hub()
    with listening(lambda request: answer(hub, request), address, inside=certificate) as host:
        hub.url = f"http://{host}"
        yield hub
