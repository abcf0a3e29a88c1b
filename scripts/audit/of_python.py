"""Advisories of Python packages, asked by pip-audit of OSV, which has those of PyPI's database and of GitHub's.

An advisory for a Python package often has no severity, and pip-audit hands none on. So each one counts as high, whether
it is fixed or not: one that can wait becomes a row of the list of what is allowed, with the reason.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pip_audit
from packaging.version import Version

from images.host import process
from images.host.errors import WorldFault
from images.lock.lock import Lock
from scripts.audit.findings import Finding

OSV = "https://api.osv.dev/v1/query"
AGAIN = "check the network and the proxy (HTTPS_PROXY), or name a mirror: --osv URL"


def find_in_python(lock: Lock, url: str, environ: Mapping[str, str]) -> list[Finding]:
    """Return what is known against the Python packages of a lock; a local version, such as +cpu, is left out.

    Raises WorldFault where that cannot be asked.
    """
    with tempfile.TemporaryDirectory() as directory:
        listed = Path(directory) / "requirements.txt"
        listed.write_text("".join(f"{one.name}=={Version(one.version).public}\n" for one in lock.artifacts))
        options = ["-r", str(listed), "--no-deps", "--disable-pip", "-s", "osv", "--osv-url", url]
        shown = ["-f", "json", "-o", "-", "--desc", "off", "--aliases", "on", "--progress-spinner", "off"]
        done = process.run([sys.executable, "-m", pip_audit.__name__, *options, *shown], environ, AGAIN)
    try:
        return list(_read(json.loads(done.out)))
    except (ValueError, KeyError, TypeError) as error:  # it ends with 1 whether it found something or failed
        why = done.failure or f"pip-audit answers {error!r}"
        raise WorldFault("cannot ask for advisories of Python packages", f"{url} ({why})", AGAIN) from error


def _read(report: Any) -> Iterator[Finding]:
    for package in report["dependencies"]:
        for one in package["vulns"]:
            names = (one["id"], *sorted(one["aliases"]))
            fixed = one["fix_versions"]
            yield Finding(package["name"], package["version"], names, fixed[0] if fixed else None)
