"""What mmdebstrap is given, and what is said where it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.debs import bootstrap
from images.debs.apt import Deb
from images.host import process
from images.host.errors import WorldFault
from images.host.process import Result
from images.host.store import Store, sha256

CONTROL = """Package: tini
Version: 0.19.0-1
Description: tiny but valid init
 Filename: is not said here
 .
 The end.

"""


def test_a_paragraph_ends_in_what_apt_checks() -> None:
    written = bootstrap.paragraph(CONTROL, "5a" * 32, 249_000)

    assert written.startswith(CONTROL.rstrip() + "\n")
    assert written.splitlines()[-3:] == [f"Filename: ./{'5a' * 32}.deb", "Size: 249000", f"SHA256: {'5a' * 32}"]
    assert "\n\n" not in written


@pytest.mark.parametrize(("environ", "place"), [({}, "/tmp"), ({"TMPDIR": ""}, "/tmp"), ({"TMPDIR": "/full"}, "/full")])
def test_where_room_for_temporary_files_may_lack_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], place: str
) -> None:
    store, env = Store(tmp_path / "store"), {"PATH": "/usr/bin", **environ}
    with store.aside() as path:
        path.write_bytes(b"a package")
        digest = sha256(path)
        store.keep(path, digest, "a.deb")
    monkeypatch.setattr(process, "run", lambda *_, **__: Result(2, "", "tar: no space\ndpkg-deb: error: tar failed"))

    with pytest.raises(WorldFault, match=r"cannot read a package: a\.deb \(dpkg-deb: error: tar failed\)") as caught:
        bootstrap.pack(store, [Deb("a", "1", "amd64", "a.deb", digest)], "", tmp_path / "out.tar", env)
    assert caught.value.remedy.startswith(f"make room in {store.root};")
    with pytest.raises(WorldFault, match="mmdebstrap could not make the base") as caught:
        bootstrap.run((), tmp_path / "parts", tmp_path / "raw", env)
    assert f"the disk and {place} have 1 GB free" in caught.value.remedy
    assert "not root? allow user namespaces" in caught.value.remedy and "newuidmap" not in caught.value.remedy


def test_what_dpkg_deb_leaves_when_it_is_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    with store.aside() as path:
        path.write_bytes(b"a package")
        digest = sha256(path)
        store.keep(path, digest, "a.deb")

    def run(_: object, env: dict[str, str], *__: object) -> None:
        Path(env["TMPDIR"], "dpkg-deb.1").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.pack(
            store, [Deb("a", "1", "amd64", "a.deb", digest)], "", tmp_path / "out", {"TMPDIR": str(tmp_path)}
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]
    assert not list((store.root / "aside").iterdir())


def test_of_a_long_complaint_beginning_and_end_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"E: setup failed: E: dpkg --install{' /debs/./0123.deb' * 400} failed\nE: mmdebstrap failed to run"
    monkeypatch.setattr(process, "run", lambda *_, **__: Result(1, "", said))

    with pytest.raises(WorldFault) as caught:
        bootstrap.run((), tmp_path / "parts", tmp_path / "raw", {"PATH": "/usr/bin"})

    assert len(caught.value.value) <= 300
    assert caught.value.value.startswith("E: setup failed: E: dpkg --install")
    assert caught.value.value.endswith("failed E: mmdebstrap failed to run")
