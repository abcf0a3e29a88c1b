"""Record an image that was built, in docs/images.json: `python -m scripts.pages pylock.toml built.json`.

These are its lock, and what build.py --json printed.
"""

import datetime
import json
import os
import sys
from pathlib import Path

from images.host import process
from images.lock import lockfile
from scripts import program
from scripts.pages import built


def record(lock: Path, said: Path) -> None:
    """Add an image to the record; raise Fault where it cannot be read, or this is no clone of git."""
    head = process.run(["git", "rev-parse", "HEAD"], os.environ, "a clone of git")
    today = datetime.datetime.now(datetime.timezone.utc).date()
    new = built.of(
        lockfile.parse_lock(lock.read_text(), str(lock)), json.loads(said.read_text()), today, head.out.strip()
    )
    built.RECORD.write_text(built.text(built.add(built.read(), new)))


def main() -> int:
    """Record the image that is named."""
    lock, said = sys.argv[1:]
    record(Path(lock), Path(said))
    return 0


if __name__ == "__main__":
    sys.exit(program.ended(main))
