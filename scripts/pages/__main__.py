"""Write what the pages have of the sources, and print which files that changes: `python -m scripts.pages`.

`python -m scripts.pages pylock.toml built.json` records an image first, in docs/images.json: these are its lock, and
what build.py --json printed.
"""

import datetime
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from images.host import process
from images.host.errors import UserFault
from images.lock import lockfile
from scripts import program
from scripts.pages import built, parts


def record(lock: Path, said: Path) -> None:
    """Add an image to the record; raise Fault where it cannot be read, or this is no clone of git."""
    head = process.run(["git", "rev-parse", "HEAD"], os.environ, "a clone of git")
    today = datetime.datetime.now(datetime.timezone.utc).date()
    new = built.of(
        lockfile.parse_lock(lock.read_text(), str(lock)), json.loads(said.read_text()), today, head.out.strip()
    )
    built.RECORD.write_text(built.text(built.add(built.read(), new)))


def main(words: Sequence[str]) -> int:
    """Record the image that is named, if one is, and write the pages."""
    if len(words) not in (0, 2):
        fact = "the pages are written without a word, or with a lock and what build.py --json printed"
        raise UserFault(fact, " ".join(words), f"{parts.COMMAND}, or {parts.COMMAND} pylock.toml built.json")
    if words:
        record(*map(Path, words))
    for path in parts.write():
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(program.ended(lambda: main(sys.argv[1:])))
