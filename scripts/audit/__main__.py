"""Say which packages of a lock have known vulnerabilities: `python -m scripts.audit pylock.toml`.

The exit code is 1 when one counts that no row of the list of what is allowed covers, and when it cannot be told. What
counts is in docs/security.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from images import startup

if __name__ == "__main__":
    startup.end_at_interrupt()

try:
    from images import pip_config
    from images.host.errors import UserFault, WorldFault
    from images.lock import lockfile
    from images.options import Parser
    from scripts import program
    from scripts.audit import findings, of_debian, of_python
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e '.[audit]'")

ALLOWED = Path(__file__).with_name("allowed.toml")


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print what was found; return the exit code."""
    parser = Parser("scripts.audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path, metavar="LOCK", help="a file that build.py lock --output wrote")
    parser.add_argument("--allow", type=Path, metavar="FILE", default=ALLOWED, help="the list of what is allowed")
    parser.add_argument("--osv", metavar="URL", default=of_python.OSV, help="OSV, or a mirror of its queries")
    parser.add_argument("--tracker", metavar="URL", default=of_debian.TRACKER, help="Debian's security tracker as JSON")
    return program.ended(lambda: _audit(parser.parse_args(argv), environ))


def _audit(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Raise WorldFault where something counts that is not allowed."""
    if not options.lock.is_file():
        raise UserFault("there is no such lock", options.lock, "a file that build.py lock --output wrote")
    context = program.context(environ, pip_config.read_sources(environ))
    allowed = findings.read_allowed(options.allow, context.today)
    lock = lockfile.parse_lock(options.lock.read_text(encoding="utf-8", errors="replace"), str(options.lock))
    used = of_debian.list_sources(lock, context)
    flaws = (
        of_debian.find_in_debian(of_debian.read_tracker(options.tracker, context), lock.debian.suite, used)
        if used
        else []
    )
    flaws += of_python.find_in_python(lock, options.osv, environ)
    left, idle = findings.without_allowed(flaws, allowed)
    for finding in sorted(left):
        print(finding.line)
    for row in idle:
        print(f"note: nothing needs this row any more: {row.id} of {row.package}", file=sys.stderr)
    if lock.base_image:
        print(f"note: what {lock.base} brings itself is in no lock, and not looked at", file=sys.stderr)
    if left:
        remedy = f"a new lock: build.py lock --as-of {context.today}; or a row with a reason in {options.allow}"
        raise WorldFault("packages have known vulnerabilities", ", ".join(sorted({f.package for f in left})), remedy)
    number = f"{len(lock.artifacts)} Python packages, {len(used)} sources of Debian {lock.debian.suite}"
    print(f"nothing counts against {number} ({len(allowed) - len(idle)} allowed)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
