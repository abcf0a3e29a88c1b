"""The base that is made of Debian's packages, in a process of its own, which no test starts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import pytest

from images.base import debian, inspect
from images.content import Content
from images.debian.deb import Debian
from images.dpkg import rootfs
from images.host import process
from images.host.errors import Fault, UserFault, WorldFault
from images.oci.layer import Layer, Written
from images.platforms import AMD64, ARM64
from images.store.blobs import sha256
from images.store.store import Store
from tests.support import locks
from tests.support.base_facts import facts_of
from tests.support.stand_in import SYSTEM

OTHER = replace(locks.TINI, package="apt", filename="apt.deb", sha256="2" * 64)
RECIPE = Debian("bookworm", ("tini",), "deb somewhere\n", (locks.TINI, OTHER))
CONTENT = Content(**{name: getattr(locks.lock(), name) for name in Content.__dataclass_fields__})


class Other:
    """The process that makes a base: it writes a layer and modules, or ends with a code and what it prints."""

    def __init__(self, code: int = 0, out: str = "") -> None:
        self.code, self.out, self.orders = code, out, list[dict[str, Any]]()

    def run(
        self, command: list[str], environ: Mapping[str, str], remedy: str, feed: IO[bytes], cwd: Path
    ) -> process.Result:
        assert command == [sys.executable, "-m", "images.base.debian"] and (cwd / "images").is_dir()
        assert environ["A"] == "1" and Path(environ["TMPDIR"]).is_dir()
        self.orders.append(json.loads(feed.read()))
        place = Path(self.orders[-1]["place"])
        if not self.code:
            (place / "layer").write_bytes(b"layer")
            (place / "modules").write_bytes(b"modules")
            written = Written(sha256(place / "layer"), "0" * 64, 5, 9)
            record = {"written": asdict(written), "facts": asdict(facts_of(SYSTEM))}
            (place / "made").write_text(json.dumps(record))
        return process.Result(self.code, self.out, "it said why")


def make(store: Store, other: Other, patch: pytest.MonkeyPatch, python: str = "3.10", **changes: Any) -> Any:
    patch.setattr(process, "run", other.run)
    given = {"recipe": RECIPE, "platform": AMD64, **changes}
    return debian.make_base(store, given["recipe"], given["platform"], python, {"A": "1"}, CONTENT)


def test_a_base_is_made_once_of_the_same_packages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Other()

    first, again = (make(store, other, monkeypatch) for _ in range(2))

    [layer] = first.layers
    assert store.blob(layer.written.digest) and store.blob(first.modules)
    assert (first.name, first.site.python, layer.reused, first.manifest) == ("debian:bookworm", "3.10", False, None)
    assert again.layers[0].reused and again.layers[0].written == layer.written and len(other.orders) == 1
    [order] = other.orders
    assert (order["platform"], order["recipe"]["debs"], order["recipe"]["suite"]) == ("linux/amd64", [], "bookworm")
    assert order["debs"] == [str(store.place(deb.sha256, deb.filename)) for deb in (OTHER, locks.TINI)]
    make(store, other, monkeypatch, platform=ARM64)
    assert len(other.orders) == 2
    for lost in (layer.written.digest, first.modules):
        store.drop(store.place(lost))
        make(store, other, monkeypatch)
    assert len(other.orders) == 4


def test_a_base_is_there_with_every_layer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    debian_base = make(store, Other(), monkeypatch)
    lost = Layer("lost", replace(debian_base.layers[0].written, digest="3" * 64), False)

    assert debian_base.is_in(store)
    assert not replace(debian_base, layers=(*debian_base.layers, lost)).is_in(store)


def test_a_base_with_another_python_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorldFault, match="another Python") as caught:
        make(store, Other(), monkeypatch, "3.12")
    assert caught.value.value == "3.12 (it has 3.10)"


@pytest.mark.parametrize(
    ("code", "out", "kind", "said"),
    [
        (2, '["a", "b", "c"]', UserFault, "a: b"),
        (1, '["a", "b", "c"]', WorldFault, "a: b"),
        (1, "", WorldFault, "the process that makes the base has failed: it said why"),
        (-9, '["a", "b", "c"]', WorldFault, "the process that makes the base has failed"),
    ],
)
def test_a_fault_of_the_other_process_is_that_of_this_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int, out: str, kind: type[Fault], said: str
) -> None:
    with pytest.raises(kind) as caught:
        make(store, Other(code, out), monkeypatch)
    assert type(caught.value) is kind and f"{caught.value.fact}: {caught.value.value}".startswith(said)


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [(None, 0, None), (UserFault("a", "b", "c"), 2, ["a", "b", "c"]), (WorldFault("a", "b", "c"), 1, ["a", "b", "c"]),
     (OSError(28, "No space left on device"), 1, None)],
)  # fmt: skip
def test_the_other_process_makes_what_it_is_told_or_prints_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: Exception | None,
    code: int, said: list[str] | None,
) -> None:  # fmt: skip
    done = list[object]()
    written = Written("1" * 64, "0" * 64, 5, 9)

    def make_tree(recipe: Debian, debs: list[Path], platform: object) -> str:
        done.append((recipe.suite, debs, platform))
        if fault:
            raise fault
        return "tree"

    monkeypatch.setattr(rootfs, "make_tree", make_tree)
    monkeypatch.setattr(rootfs, "write_modules", lambda *given: done.append(given))
    monkeypatch.setattr(rootfs, "write_tree", lambda *given: done.append(given) or written)  # type: ignore[func-returns-value]
    monkeypatch.setattr(inspect, "read_facts", lambda layers, *_: (facts_of(SYSTEM), layers))
    recipe = {"suite": "bookworm", "packages": ["tini"], "sources": "", "debs": []}
    order = {
        "recipe": recipe,
        "debs": ["/a.deb"],
        "platform": "linux/arm64",
        "settings": {"x": 1},
        "place": str(tmp_path),
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(order)))

    assert debian._main() == code
    out = capsys.readouterr().out
    assert done[0] == ("bookworm", [Path("/a.deb")], ARM64)
    if fault is None:
        assert done[1:] == [("tree", tmp_path / "modules"), ("tree", tmp_path / "layer", {"x": 1})]
        assert json.loads((tmp_path / "made").read_text())["written"] == asdict(written) and out == ""
    else:
        assert len(json.loads(out)) == 3 and (said is None or json.loads(out) == said)
