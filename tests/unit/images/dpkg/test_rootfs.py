"""What a root file system becomes of packages: dpkg's rules, the table of scripts, and what dpkg remembers."""

from __future__ import annotations

import base64
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from images.debian import control, deb
from images.debian.deb import Debian, Package
from images.dpkg import effects, rootfs, suites
from images.dpkg.rootfs import DIRTY
from images.dpkg.suites import SUITES
from images.dpkg.tree import DIRECTORY, LINK, MERGED, PackageTree
from images.host.errors import WorldFault
from images.oci import compression
from images.oci.layer_writer import EPOCH
from images.platforms import AMD64, ARM64, Platform
from tests.golden.debian import CERTIFICATE, PROFILE
from tests.support.hostile import END, entry
from tests.support.packages import package
from tests.support.stand_in import Directory, Files, layer


def tree_of(*packages: bytes, place: Path, named: tuple[str, ...] = ()) -> PackageTree:
    """Make the tree of packages, whose names are their numbers."""
    paths = []
    for number, content in enumerate(packages):
        paths.append(place / f"{number}.deb")
        paths[-1].write_bytes(content)
    return rootfs.make_tree(Debian("bookworm", named, "deb somewhere\n", ()), paths, AMD64)


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("etc/ssh/ssh_host_rsa_key", True), ("etc/ssh/sshd_config", False), ("etc/machine-id", True),
        ("etc/resolv.conf", True), ("etc/hostname", True), ("usr/bin/hostname", False), ("var/log/dpkg.log", True),
        ("var/log", False), ("var/cache/ldconfig/aux-cache", True), ("var/lib/dpkg/status", False),
        ("dev/null", True), ("dev", False), ("tmp/x", True), ("run/sshd", True),
    ],
)  # fmt: skip
def test_what_belongs_to_one_machine_is_left_out(path: str, dirty: bool) -> None:
    assert bool(DIRTY.match(path)) is dirty


def test_files_lie_where_a_merged_usr_has_them_and_documents_are_left_out(tmp_path: Path) -> None:
    files: Files = {
        "./bin/a": b"a", "./lib/x86_64-linux-gnu/liba.so": b"b", "./usr/share/doc/tool/copyright": b"c",
        "./usr/share/doc/tool/README": b"d", "./usr/share/doc/other": "tool", "./usr/share/man/man1/a.1": b"e",
        "./usr/share/locale/de/a.mo": b"f", "./usr/lib/python3.11/EXTERNALLY-MANAGED": b"g",
    }  # fmt: skip
    tree = tree_of(package("tool", layer(files)), place=tmp_path)

    kept = {path for path, entry in tree.entries.items() if entry.owner and entry.kind != DIRECTORY}
    assert kept == {
        "usr/bin/a", "usr/lib/x86_64-linux-gnu/liba.so", "usr/share/doc/tool/copyright", "usr/share/doc/other",
    }  # fmt: skip
    assert (tree.entries["bin"].kind, tree.entries["bin"].link) == (LINK, "usr/bin")
    assert "/usr/share/man/man1/a.1\n" in tree.text("var/lib/dpkg/info/tool.list")
    assert tree.text("etc/apt/sources.list") == "deb somewhere\n"


@pytest.mark.parametrize(("mode", "kept"), [(0o4755, 0o755), (0o2755, 0o755), (0o1777, 0o1777), (0o644, 0o644)])
def test_nothing_runs_as_another_user(mode: int, kept: int, tmp_path: Path) -> None:
    tree = tree_of(package("tool", layer({"./usr/x": Directory(mode)})), place=tmp_path)

    assert tree.entries["usr/x"].mode == kept


@pytest.mark.parametrize(
    ("name", "files", "said"),
    [
        ("other", {"./usr/bin/a": b"other"}, "two Debian packages have one path"),
        ("other", {"./usr/bin/a": None}, "two Debian packages have one path"),
        ("one", {"./usr/bin/b": b""}, "twice"),
    ],
)
def test_one_of_two_packages_has_a_path(name: str, files: Files, said: str, tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match=said):
        tree_of(package("one", layer({"./usr/bin/a": b"one"})), package(name, layer(files)), place=tmp_path)


def test_a_file_in_the_words_of_an_old_tar_is_one() -> None:
    tree = PackageTree()
    tree.unpack(deb.parse_package(package("tool", entry(b"./usr/a", b"text", b"\0") + END), ""))

    assert tree.below("usr") == ["usr/a"] and tree.text("usr/a") == "text"


def test_of_two_entries_of_one_package_the_last_is_there(tmp_path: Path) -> None:
    tree = tree_of(package("one", entry(b"./usr/a", b"1") + entry(b"./usr/a", b"2") + END), place=tmp_path)

    assert tree.text("usr/a") == "2"


@pytest.mark.parametrize("owner", [Directory(uid=1), Directory(gid=100)])
def test_files_are_roots_and_of_groups_that_every_system_has(owner: Directory, tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="not root's"):
        tree_of(package("tool", layer({"./usr/x": owner})), place=tmp_path)


def linked(name: bytes, target: bytes, kind: bytes, below: bytes = b"") -> bytes:
    """Return a tar of a file, a link, and a file below that."""
    return entry(b"./usr/bin/a") + entry(name, kind=kind, link=target) + (entry(below) if below else b"") + END


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (linked(b"./usr/b", b"/etc/shadow", tarfile.LNKTYPE), "leads nowhere"),
        (linked(b"./usr/b", b"../../etc/shadow", tarfile.LNKTYPE), "leads nowhere"),
        (linked(b"./usr/b", b"/etc", tarfile.SYMTYPE, below=b"./usr/b/passwd"), "below what is no directory"),
        (linked(b"./usr/b", b"./usr/bin/a", tarfile.LNKTYPE, below=b"./usr/b/x"), "below what is no directory"),
    ],
)
def test_links_that_lead_out_are_refused(data: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match=said):
        tree_of(package("tool", data), place=tmp_path)


def test_a_layer_has_fixed_times_and_hard_links(tmp_path: Path) -> None:
    tree = tree_of(package("tool", linked(b"./usr/b", b"./usr/bin/a", tarfile.LNKTYPE)), place=tmp_path)
    tree.entries["usr/b"].read = lambda: b"a program"

    written = rootfs.write_tree(tree, tmp_path / "layer", compression.USUAL)

    with (tmp_path / "layer").open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as plain:
        content = plain.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        infos = {info.name: info for info in tar}
        assert {info.mtime for info in infos.values()} == {EPOCH}
        assert list(infos) == sorted(infos)
        assert (infos["usr/b"].isreg(), infos["usr/bin/a"].islnk(), infos["usr/bin/a"].linkname) == (
            True,
            True,
            "usr/b",
        )
    assert written.unpacked == len(content)


SCRIPT = "#!/bin/sh\nset -e\nrm -rf /\n"


def test_a_script_that_nobody_has_read_is_refused(tmp_path: Path) -> None:
    one, other = package("one", b"", {"postinst": SCRIPT}), package("other", b"", {"preinst": SCRIPT, "prerm": SCRIPT})

    with pytest.raises(WorldFault, match=r"not known here: one.postinst of 1, other.preinst of 1") as caught:
        tree_of(one, other, place=tmp_path)
    assert "--lock" in caught.value.remedy


@pytest.mark.parametrize(
    ("version", "script", "same"),
    [
        ("1", "set -e\n  cat /usr/lib/x86_64-linux-gnu/1\n", True),
        ("2.1", "# another comment\n\nset -e\ncat /usr/lib/aarch64-linux-gnu/2.1", True),
        ("2.1", "set -e\ncat /usr/lib/x86_64-linux-gnu/1\n", False),
        ("1", "set -e\ncat /usr/lib/x86_64-linux-gnu/1 && rm /\n", False),
    ],
)
def test_a_script_is_known_whatever_its_comments_and_version(version: str, script: str, same: bool) -> None:
    known = deb.parse_package(package("tool", b"", {"postinst": "set -e\ncat /usr/lib/x86_64-linux-gnu/1\n"}), "")

    other = deb.parse_package(package("tool", b"", {"postinst": script}, version), "")

    assert (suites.script_key(other, "postinst") == suites.script_key(known, "postinst")) is same


def unpack(name: str, files: Files, script: str = "") -> tuple[PackageTree, Package]:
    """Unpack a package with a script."""
    tree, unpacked = PackageTree(), deb.parse_package(package(name, layer(files), {"postinst": script}), "")
    tree.unpack(unpacked)
    return tree, unpacked


ACCOUNTS: Files = {
    "./usr/share/base-passwd/passwd.master": b"root:*:0:0:root:/root:/bin/bash\n",
    "./usr/share/base-passwd/group.master": b"root:*:0:\nshadow:*:42:\n",
}


def test_accounts_have_no_password() -> None:
    tree, unpacked = unpack("base-passwd", ACCOUNTS)

    effects.accounts(tree, unpacked, "0")
    effects.user(tree, unpacked, "sshd", 100, "/run/sshd")
    effects.user(tree, unpacked, "sshd", 100, "/run/sshd")

    assert tree.text("etc/passwd") == (
        "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    assert tree.text("etc/shadow") == "root:*:19723:0:99999:7:::\nsshd:!:19723::::::\n"
    assert (tree.entries["etc/shadow"].mode, tree.entries["etc/shadow"].gid) == (0o640, 42)


LIST = b"""\
# kind name number "comment" home
u root   0 "another root" /x

g _ssh   -
u sshd   -:nogroup "sshd user" /run/sshd
g lpadmin
"""


def test_accounts_of_a_list_have_the_highest_numbers_that_are_free() -> None:
    """As systemd-sysusers gives them to an empty system; a number that a user has is that of no group."""
    tree, unpacked = unpack("service", {**ACCOUNTS, "./usr/lib/sysusers.d/service.conf": LIST})
    effects.accounts(tree, unpacked, "")

    effects.sysusers(tree, unpacked, "service")
    effects.sysusers(tree, unpacked, "service")

    assert tree.text("etc/passwd").splitlines()[1:] == ["sshd:x:998:65534:sshd user:/run/sshd:/usr/sbin/nologin"]
    assert tree.text("etc/shadow").splitlines() == ["root:*:19723::99999:7:::", "sshd:!*:19723::::::"]
    assert tree.text("etc/group").splitlines()[2:] == ["_ssh:x:999:", "lpadmin:x:997:"]
    assert tree.text("etc/gshadow").splitlines()[2:] == ["_ssh:!*::", "lpadmin:!*::"]


@pytest.mark.parametrize("line", ["u a 7", "u a -", "u! a -:nogroup", "g a 7", "m a b", "r - 500-900", 'g "a'])
def test_a_line_of_such_a_list_that_is_not_known_is_said(line: str) -> None:
    tree, unpacked = unpack("service", {**ACCOUNTS, "./usr/lib/sysusers.d/service.conf": line.encode()})
    effects.accounts(tree, unpacked, "0")

    with pytest.raises(ValueError, match=r"service.conf|quotation"):
        effects.sysusers(tree, unpacked, "service")


@pytest.mark.parametrize(
    ("effect", "given", "expected"),
    [
        (effects.copy, ("usr/a", "etc/a"), {"etc/a": "text"}),
        (effects.file, ("etc/a", "b"), {"etc/a": "b"}),
        (effects.file, ("usr/a", "b"), {"usr/a": "text"}),  # what is there stays
        (effects.heredoc, ("etc/hosts.allow",), {"etc/hosts.allow": "# /etc/hosts.allow\n\tnone\n"}),
        (effects.heredoc, ("etc/hosts.deny",), {"etc/hosts.deny": "all\n"}),
        (effects.divert, ("/bin/sh", "/x"), {"var/lib/dpkg/diversions": "/bin/sh\n/x\ntool\n"}),
        (
            effects.configuration, ("usr/a", "etc/a"),
            {
                "etc/a": "text", "var/lib/ucf/hashfile": "1cb251ec0d568de6a929b520c4aed8d1  /etc/a\n",
                "var/lib/ucf/registry": "tool \t /etc/a\n", "var/lib/ucf/cache/:etc:a": "text",
            },
        ),
        (
            effects.alternative,
            ("it", "usr/bin/it", "usr/a", 5, "it.1.gz /usr/share/man/it.1.gz /usr/share/man/a.1.gz"),
            {"var/lib/dpkg/alternatives/it": (
                "auto\n/usr/bin/it\nit.1.gz\n/usr/share/man/it.1.gz\n\n/usr/a\n5\n/usr/share/man/a.1.gz\n\n"
            )},
        ),
    ],
)  # fmt: skip
def test_the_table_does_what_scripts_do(
    effect: effects.Effect, given: tuple[object, ...], expected: Mapping[str, str]
) -> None:
    script = "cat > /etc/hosts.allow <<EOF\n# /etc/hosts.allow\n\tnone\nEOF\n"
    script += '\tcat > "$DPKG_ROOT/etc/hosts.deny" <<-EOF\n\tall\n\tEOF\n'
    tree, unpacked = unpack("tool", {"./usr/a": b"text"}, script)

    effect(tree, unpacked, *given)

    assert {path: tree.text(path) for path in expected} == expected


def test_an_alternative_has_links_to_what_is_there() -> None:
    tree, unpacked = unpack("tool", {"./usr/bin/a": b""})

    effects.alternative(tree, unpacked, "it", "usr/bin/it", "usr/bin/a", 5, effects.page("it", "a"))

    links = {path: entry.link for path, entry in tree.entries.items() if entry.kind == LINK and "/" in path}
    assert links == {"usr/bin/it": "/etc/alternatives/it", "etc/alternatives/it": "/usr/bin/a"}


def test_a_package_that_has_not_what_its_script_needs_is_named() -> None:
    unpacked = deb.parse_package(package("base-files", b"", {"postinst": ""}), "")

    with pytest.raises(WorldFault, match=r"base-files 1: 'usr/share/base-files/dot\.profile'"):
        suites.apply(PackageTree(), {"base-files": unpacked}, "bookworm", AMD64)
    without = deb.parse_package(package("base-files", b""), "")
    suites.apply(PackageTree(), {"base-files": without}, "bookworm", AMD64)  # no script, no effect


def test_dpkg_knows_packages_and_files_of_configuration(tmp_path: Path) -> None:
    scripts = {"conffiles": "/etc/a\nremove-on-upgrade /etc/b\n", "triggers": "interest-noawait /usr/x\ninterest t\n"}
    first = package("tool", layer({"./etc/a": b"text"}), scripts, Multi_Arch="same", Essential="yes", Section="x")
    tree = tree_of(first, package("wanted"), package("library"), place=tmp_path, named=("wanted",))

    status = [control.parse_fields(text) for text in tree.text("var/lib/dpkg/status").split("\n\n")]
    assert {said["Status"] for said in status if said} == {"install ok installed"}
    assert status[1]["Conffiles"] == "\n /etc/a 1cb251ec0d568de6a929b520c4aed8d1"
    assert list(status[1])[:5] == ["Package", "Essential", "Status", "Section", "Maintainer"]
    assert tree.text("var/lib/dpkg/info/tool:amd64.list") == "/etc/a\n"
    assert tree.text("var/lib/dpkg/triggers/File") == "/usr/x tool:amd64/noawait\n"
    assert tree.text("var/lib/dpkg/triggers/t") == "tool:amd64\n"
    assert "Package: library\n" in tree.text("var/lib/apt/extended_states")
    assert "Package: wanted\n" not in tree.text("var/lib/apt/extended_states")


def test_a_file_of_configuration_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="etc/a"):
        tree_of(package("tool", b"", {"conffiles": "/etc/a\n"}), place=tmp_path)


def test_modules_go_to_an_archive_by_their_paths(tmp_path: Path) -> None:
    files: Files = {
        "./usr/share/python3/d.py": b"4", "./usr/lib/python3.11/a.py": b"1", "./etc/b.py": b"2",
        "./usr/lib/python3.11/b.py": "/etc/b.py", "./usr/lib/python3.11/c.py": "/nowhere", "./usr/share/e.py": b"5",
    }  # fmt: skip
    rootfs.write_modules(tree_of(package("tool", layer(files)), place=tmp_path), tmp_path / "modules")

    with zipfile.ZipFile(tmp_path / "modules") as archive:
        modules = [(name.rpartition("/")[2], archive.read(name)) for name in archive.namelist()]
    assert modules == [("a.py", b"1"), ("b.py", b"2"), ("d.py", b"4")]


def test_large_files_are_kept_on_disk_and_a_full_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("images.dpkg.tree.LARGE", 3)
    tree, files = PackageTree(), {"a": b"12", "b": b"345", "c": b"6789"}
    for path, data in files.items():
        tree.file(path, data)

    assert {path: tree.entries[path].data for path in files} == files
    monkeypatch.setattr(tree, "_large", mock.Mock(**{"write.return_value": 2}))
    tree.file("d", b"12")
    with pytest.raises(OSError, match="No space left"):
        tree.file("d", b"345")


def test_links_that_form_a_circle_are_said() -> None:
    tree = PackageTree()
    tree.link("a", "b")
    tree.link("b", "/a")

    with pytest.raises(WorldFault, match="circle"):
        tree.real("a/c")
    assert tree.real("bin/../x") == "usr/bin/../x"


def pam(profile: bytes, more: str = "mkhomedir") -> PackageTree:
    """Write what Debian's own profile and another one make."""
    tree, unpacked = unpack(
        "libpam-runtime", {f"./usr/share/pam-configs/{more}": b"", "./usr/share/pam-configs/unix": profile}
    )
    for kind in effects.PAM_KINDS:
        word = kind.partition("-")[0]
        text = f"# {kind}\n${word}_primary\n{word} required pam_permit.so\n${word}_additional\n"
        tree.file(f"usr/share/pam/common-{kind}", text)
    effects.pam(tree, unpacked)
    return tree


def test_pam_has_the_profile_that_is_on() -> None:
    tree = pam(PROFILE.encode())

    assert tree.text("etc/pam.d/common-auth") == (
        "# auth\nauth\t[success=1 default=ignore]\tpam_unix.so nullok\nauth required pam_permit.so\n"
    )
    assert tree.text("etc/pam.d/common-session") == (
        "# session\nsession\t[default=1]\t\t\tpam_permit.so\nsession required pam_permit.so\n"
        "session\trequired\tpam_unix.so \n"
    )
    assert tree.text("var/lib/pam/auth") == "Module: unix\n[success=end default=ignore]\tpam_unix.so nullok\n"
    with pytest.raises(ValueError, match="capability, "):
        pam(PROFILE.encode(), more="capability")


def test_a_certificate_is_found_by_its_subject() -> None:
    tree = PackageTree()
    for name in ("A (1).crt", "B.crt"):
        tree.file(f"usr/share/x/{name}", CERTIFICATE.strip())

    effects.install_certificates(tree, "usr/share/x", ["A (1).crt", "B.crt"])

    assert {path: entry.link for path, entry in tree.entries.items() if path.startswith("etc") and entry.link} == {
        "etc/ssl/certs/A_=1=.pem": "/usr/share/x/A (1).crt", "etc/ssl/certs/B.pem": "/usr/share/x/B.crt",
        "etc/ssl/certs/4cdd6a15.0": "A_=1=.pem", "etc/ssl/certs/4cdd6a15.1": "B.pem",
    }  # fmt: skip
    assert tree.text("etc/ssl/certs/ca-certificates.crt") == 2 * CERTIFICATE


@given(st.binary(max_size=200))
def test_no_bytes_of_a_certificate_are_too_much(data: bytes) -> None:
    try:
        effects.subject_hash(b"-----BEGIN CERTIFICATE-----" + base64.b64encode(data) + b"-----END")
    except (LookupError, ValueError):
        pass


@given(st.binary(max_size=300), st.binary(max_size=100))
def test_no_library_is_too_much(data: bytes, start: bytes) -> None:
    tree = PackageTree()
    tree.file("etc/ld.so.conf", "include /etc/ld.so.conf\n/usr/lib\n")
    tree.file("usr/lib/liba.so.1", b"\x7fELF" + start.ljust(14, b"\0") + b"\x3e\0" + data)
    tree.file("usr/lib/x86_64-linux-gnu/libc.so.6", b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.")

    effects.write_cache(tree, AMD64)

    assert tree.entries["etc/ld.so.cache"].data.startswith(effects.MAGIC)


@given(st.text("ugm!-:_ \n\"'#ab0", max_size=60) | st.binary(max_size=200))
def test_no_list_of_accounts_is_too_much(text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    tree, unpacked = unpack("service", {**ACCOUNTS, "./usr/lib/sysusers.d/service.conf": data})
    effects.accounts(tree, unpacked, "0")
    try:
        effects.sysusers(tree, unpacked, "service")
    except (LookupError, ValueError):
        pass


@given(st.binary(max_size=200))
def test_no_profile_of_pam_is_too_much(data: bytes) -> None:
    try:
        pam(data)
    except (LookupError, ValueError):
        pass


def test_a_base_for_arm64_has_its_own_names(tmp_path: Path) -> None:
    """No lib64: nothing of arm64 is in it."""
    library = b"\x7fELF" + bytes(14) + b"\xb7\0" + b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36."
    files: Files = {"./lib/aarch64-linux-gnu/libc.so.6": library, "./lib/ld-linux-aarch64.so.1": b"", "./bin/a": b""}
    paths = [tmp_path / "a.deb", tmp_path / "b.deb"]
    paths[0].write_bytes(package("libc-bin", layer({}), Architecture="arm64"))
    paths[1].write_bytes(package("tool", layer(files), Architecture="arm64"))

    tree = rootfs.make_tree(Debian("bookworm", (), "", ()), paths, ARM64)

    assert tree.text("var/lib/dpkg/arch") == "arm64\n"
    assert [name for name in MERGED if name in tree.entries] == ["bin", "lib"]
    assert tree.entries["etc/ld.so.cache"].data.startswith(effects.MAGIC)
    with pytest.raises(WorldFault, match="another machine"):
        rootfs.make_tree(Debian("bookworm", (), "", ()), paths, AMD64)


@pytest.mark.parametrize(("platform", "kept"), [(AMD64, {"lib64"}), (ARM64, set())])
def test_directories_of_other_loaders_are_diverted(platform: Platform, kept: set[str]) -> None:
    rows = SUITES["trixie"].rows(platform)

    diverted = {row[2].strip("/") for row in rows if row[:2] == ("base-files", effects.divert)}
    assert diverted == {"lib32", "lib64", "libo32", "libx32"} - kept


def test_every_row_is_of_a_package_whose_script_is_known() -> None:
    known = {name.rpartition(".")[0] for name in suites.read_known()}
    rows = (*suites.TABLE, *(row for suite in SUITES.values() for row in suite.rows(AMD64)))

    assert {row[0] for row in rows} <= known
