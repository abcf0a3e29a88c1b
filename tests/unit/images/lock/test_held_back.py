"""Packages of the user's that are not the newest -> what is in their way, as uv says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from packaging.pylock import Pylock
from packaging.version import Version

from images.lock import resolve, uv
from images.lock.uv import Chosen, UvAnswer
from images.pip_config import Sources
from images.plan import catalog, planner
from images.plan.plan import Request
from images.store.store import Store
from tests.support import locks

PLAN = replace(planner.make_plan(Request(), catalog.load()), user_packages=("deepspeed", "peft", "trl"))
NONE = "error: No solution found when resolving dependencies\n  cause: Because "
END = ", we can conclude that your requirements are unsatisfiable.\n\nhint: Wheels are required for `deepspeed`"


def pylock(**versions: str) -> Pylock:
    packages = []
    for name, version in versions.items():
        wheel = {"url": f"https://host/{name}-{version}-py3-none-any.whl", "hashes": {"sha256": "0"}}
        packages.append({"name": name, "version": version, "wheels": [wheel]})
    return Pylock.from_dict({"lock-version": "1.0", "created-by": "uv", "packages": packages})


def test_each_that_is_not_the_newest_has_a_line_with_what_holds_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = {"deepspeed": "0.19.8", "peft": "0.19.1", "trl": "1.13.0", "absent": "1"}
    said = {
        "deepspeed==0.19.8": "deepspeed==0.19.8 has no usable wheels and this-image depends on deepspeed==0.19.8",
        "trl==1.13.0": "trl==1.13.0 depends on accelerate>2 and this-image depends on accelerate<2",
    }

    def ask(*question: object) -> UvAnswer:
        requirements = question[-1]
        assert isinstance(requirements, Sequence) and requirements[:-1] == ("deepspeed", "peft", "trl")
        return UvAnswer(f"{NONE}{said[requirements[-1]]}{END}", None, ())

    monkeypatch.setattr(uv, "ask", ask)
    monkeypatch.setattr(resolve, "find_newest", lambda *_: {name: Version(text) for name, text in newest.items()})
    chosen = Chosen(pylock(deepspeed="0.3.1.dev5", peft="0.19.1", trl="0.9"), Sources())

    notes = resolve.list_held_back(PLAN, chosen, locks.context(store, Sources(), {}), ("deepspeed", "peft", "trl"))

    build = "build one: pip wheel --no-deps --wheel-dir wheels deepspeed==0.19.8, then --wheelhouse wheels"
    assert notes == [
        f"deepspeed 0.3.1.dev5, not 0.19.8, the newest of {PLAN.as_of}: Because {said['deepspeed==0.19.8']}; {build}",
        f"trl 0.9, not 1.13.0, the newest of {PLAN.as_of}: Because {said['trl==1.13.0']}",
    ]
