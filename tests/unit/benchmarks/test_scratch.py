"""What a benchmark leaves behind: nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.host.scratch import Scratch, opened


class Engine:
    """Stand for a Docker client without buildx: it has something of everything, until that is removed."""

    def __init__(self) -> None:
        self.builds = {"before"}
        self.removed = list[str]()

    def run(self, command: Sequence[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = list(command[1:])
        if words[0] != "builder" or env["DOCKER_BUILDKIT"] == "0":
            self._remove(words)
        return subprocess.CompletedProcess(command, 0, stdout=self._listed(words), stderr="")

    def _remove(self, words: list[str]) -> None:
        if words[:2] == ["builder", "prune"]:
            self.builds.discard(words[-1].removeprefix("id="))
        elif "rm" in words or "rmi" in words:
            self.removed.append(words[-1])

    def _listed(self, words: list[str]) -> str:
        if words[:2] == ["system", "df"]:
            return json.dumps([{"ID": record} for record in sorted(self.builds)])
        listed = {"ps": "container", "network": "network", "images": "dangling" if "--quiet" in words else words[-1]}
        return "" if words[1:2] == ["rm"] else listed.get(words[0], "")


@pytest.mark.parametrize("raised", [None, KeyboardInterrupt, ValueError])
def test_nothing_stays_whatever_ends_the_benchmark(
    raised: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    monkeypatch.setattr(subprocess, "run", engine.run)
    scratches = list[Scratch]()

    def work() -> None:
        with opened() as scratch:
            scratches.append(scratch)
            engine.builds |= {"ours", "its parent"}
            if raised:
                raise raised

    if raised:
        with pytest.raises(raised):
            work()
    else:
        work()

    assert engine.removed == ["container", "network", scratches[0].name, "dangling"]
    assert engine.builds == {"before"}
    assert not scratches[0].directory.exists()
