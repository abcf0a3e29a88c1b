"""A real registry: Debian's docker-registry on a free port."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/data}}{storage}}}
http: {{addr: "127.0.0.1:0", secret: x{http}}}
{more}
"""


@contextmanager
def running(folder: Path, more: str = "", *, http: str = "", storage: str = "") -> Iterator[str]:
    """Run Debian's docker-registry on a free port; yield host:port. The texts go into its configuration."""
    folder.mkdir()
    (folder / "config.yml").write_text(CONFIG.format(folder=folder, more=more, http=http, storage=storage))
    env = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    command = ["docker-registry", "serve", str(folder / "config.yml")]
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said: list[str] = []
    listening = threading.Event()

    def listen() -> None:
        for line in child.stderr or ():
            said.append(line)
            if "listening on" in line:
                listening.set()

    reader = threading.Thread(target=listen)
    reader.start()
    try:
        assert listening.wait(timeout=60), "".join(said)
        found = re.search(r"listening on (127\.0\.0\.1:[0-9]+)", "".join(said))
        assert found
        yield found[1]
    finally:
        child.terminate()
        child.wait(timeout=30)
        reader.join(timeout=30)
        assert child.stderr
        child.stderr.close()
