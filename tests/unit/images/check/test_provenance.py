"""What a provenance says of an image: every file of its lock, and nothing that is not the same everywhere."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from images.base.base import BaseImage
from images.check import provenance
from images.check.provenance import CYCLONEDX, IN_TOTO, PREDICATE_KEY, read_claim, read_signed_claim
from images.content import Content
from images.context import Access
from images.debian.deb import Deb
from images.deliver import registry
from images.lock import lockfile
from images.lock.lock import Examples, Lock
from images.oci.manifest import CONFIGS, Descriptor, Manifest, digest_of
from images.oci.reference import Remote
from images.plan.user_files import UserFile
from tests.support.locks import artifact, lock

DIGEST = "sha256:" + "d" * 64
BASE = Manifest(f"sha256:{'b' * 64}", Descriptor(CONFIGS[0], f"sha256:{'c' * 64}", 1), ())
KEPT = BaseImage(BASE, ("six",), "registry.example/team/base:1")


def predicate(locked: Lock) -> dict[str, Any]:
    return dict(json.loads(provenance.write_statement(locked, DIGEST))["predicate"]["buildDefinition"])


def test_it_is_about_the_image_with_that_digest() -> None:
    statement = json.loads(provenance.write_statement(lock(), DIGEST))

    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": lock().tag, "digest": {"sha256": "d" * 64}}]
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["predicate"].keys() == {"buildDefinition", "runDetails"}


def test_it_names_the_lock_and_each_file_with_its_package_and_sha256() -> None:
    deb = Deb("tini", "1:0.19", "amd64", "tini_0.19_amd64.deb", "1" * 64)
    locked = lock(
        [artifact("torch", "2.13.0+cpu", sha256="2" * 64), artifact("transformers", "5.23.0", sha256="3" * 64)],
        [deb],
        examples=Examples("examples.tar", "4" * 64),
    )

    rows = predicate(locked)["resolvedDependencies"]

    expected = [
        ("pylock.toml", None, digest_of(lockfile.format_lock(locked).encode()).removeprefix("sha256:")),
        (deb.filename, "pkg:deb/debian/tini@1:0.19?arch=amd64&distro=debian-12", "1" * 64),
        ("torch-2.13.0+cpu-py3-none-any.whl", "pkg:pypi/torch@2.13.0%2Bcpu", "2" * 64),
        ("transformers-5.23.0-py3-none-any.whl", "pkg:pypi/transformers@5.23.0", "3" * 64),
        ("examples.tar", "pkg:generic/transformers-examples@5.23.0", "4" * 64),
    ]
    assert [(row["name"], row.get("uri"), row["digest"]["sha256"]) for row in rows] == expected


@pytest.mark.parametrize(
    ("reference", "name", "uri"),
    [
        (
            KEPT.reference, "registry.example/team/base:1",
            f"pkg:oci/base@{BASE.digest}?repository_url=registry.example/team/base",
        ),
        (None, "base", f"pkg:oci/base@{BASE.digest}"),
    ],
)  # fmt: skip
def test_a_base_of_others_is_one_of_the_files_and_what_it_has_is_none(
    reference: str | None, name: str, uri: str
) -> None:
    locked = lock([artifact("torch", "2.13.0"), artifact("six", "1.17.0")], base="x")
    locked = replace(locked, base_image=replace(KEPT, reference=reference))

    rows = predicate(locked)["resolvedDependencies"]

    assert {"name": name, "uri": uri, "digest": {"sha256": "b" * 64}} in rows
    assert not [row for row in rows if "six" in row["name"]]


def test_it_says_what_was_asked_for_and_with_which_tools_it_was_made() -> None:
    definition = predicate(lock(trim=False, env=("A=1", "B=2")))

    asked = {"torch": "2.13.0", "backend": "gloo", "trim": False, "env": ["A=1", "B=2"]}
    assert (
        asked.items() <= definition["externalParameters"].items()
        and "no-import" not in definition["externalParameters"]
    )
    assert definition["internalParameters"] == lockfile.tools(Content())


def test_where_the_files_came_from_makes_no_other_provenance() -> None:
    elsewhere = [replace(file, url="https://mirror.example/x") for file in lock().artifacts]

    assert provenance.write_statement(lock(elsewhere, undated=("torch",)), DIGEST) == provenance.write_statement(
        lock(), DIGEST
    )


def test_the_users_own_files_are_named_with_their_sha256() -> None:
    definition = predicate(lock(user_files=(UserFile("a.py", "7" * 64), UserFile("b", target="a.py"))))

    assert definition["externalParameters"]["user-files"] == ["a.py", "b"]
    assert definition["resolvedDependencies"][-1] == {"name": "workspace/a.py", "digest": {"sha256": "7" * 64}}


# Which documents beside an image are taken for ours: by every name of an SBOM or a statement.

SLSA, VULNERABILITIES = "https://slsa.dev/provenance/v1", "https://cosign.sigstore.dev/attestation/vuln/v1"
ROWS: list[tuple[str, dict[str, str], str | None]] = [
    (CYCLONEDX, {}, "sbom"),
    ("application/vnd.CycloneDX+JSON; version=1.5", {}, "sbom"),
    ("application/vnd.cyclonedx+xml", {}, "sbom"),
    ("application/spdx+json", {}, "sbom"),
    ("text/spdx", {}, "sbom"),
    ("application/vnd.syft+json", {}, "sbom"),
    ("application/vnd.dev.cosign.artifact.sbom.v1+json", {}, "sbom"),
    ("cosign's .sbom", {}, "sbom"),
    (IN_TOTO, {}, "provenance"),
    (IN_TOTO, {PREDICATE_KEY: SLSA}, "provenance"),
    (IN_TOTO, {PREDICATE_KEY: "https://slsa.dev/provenance/v0.2"}, "provenance"),
    (IN_TOTO, {PREDICATE_KEY: "https://spdx.dev/Document"}, "sbom"),
    (IN_TOTO, {PREDICATE_KEY: "https://cyclonedx.org/bom"}, "sbom"),
    (IN_TOTO, {PREDICATE_KEY: VULNERABILITIES}, None),
    # What says several things of itself is for one of them.
    (IN_TOTO, {PREDICATE_KEY: VULNERABILITIES, "predicateType": SLSA}, "provenance"),
    (IN_TOTO, {PREDICATE_KEY: SLSA, "predicateType": "https://spdx.dev/Document"}, "sbom"),
    (IN_TOTO, {PREDICATE_KEY: VULNERABILITIES, "predicateType": VULNERABILITIES}, None),
    ("application/vnd.example+json", {PREDICATE_KEY: SLSA}, None),
    ("cosign's .sig", {}, None),
    ("application/vnd.dev.cosign.artifact.sig.v1+json", {}, None),
    ("application/vnd.cncf.notary.signature", {}, None),
    ("application/vnd.example.scan-result", {}, None),
]


@pytest.mark.parametrize(("media_type", "annotations", "claim"), ROWS)
def test_a_document_claims_to_be_ours_by_any_of_its_names(
    media_type: str, annotations: dict[str, str], claim: str | None
) -> None:
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": media_type}

    assert read_claim({**entry, "annotations": annotations}) == claim


def test_what_nobody_here_can_vouch_for_is_listed_by_what_it_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    known = provenance.write_documents(lock(), "{}", b"{}")
    scan = {
        "digest": DIGEST,
        "mediaType": "a/b",
        "artifactType": IN_TOTO,
        "annotations": {PREDICATE_KEY: VULNERABILITIES},
    }
    plain = {"digest": BASE.digest, "mediaType": "a/b"}
    listed = {digest_of(b"{}"): [{"digest": known[0].digest, "mediaType": "x"}, scan], DIGEST: [scan, plain]}
    monkeypatch.setattr(registry, "list_attached", lambda subject, *_: listed[subject])
    monkeypatch.setattr(registry, "is_attached", lambda document, *_: document is known[0])

    attached = provenance.compare_attached(known, [DIGEST], Remote("host", "a", "1"), Access(environ={}))

    assert attached.documents == {"sbom": known[0].digest, "provenance": None}
    assert attached.others == [f"{DIGEST} ({IN_TOTO} {VULNERABILITIES})", f"{BASE.digest} (a/b)"]


SBOM = b'{"bomFormat": "CycloneDX", "components": []}'
SIGNED = [{"sig": "AAAA"}]


def envelope(about: str, predicate: object, signatures: object = SIGNED) -> dict[str, Any]:
    """Return a statement in an envelope (DSSE)."""
    payload = json.dumps({"predicateType": about, "predicate": predicate}).encode()
    return {"payload": base64.b64encode(payload).decode(), "signatures": signatures}


OURS, FALSE = json.loads(SBOM), {"bomFormat": "CycloneDX", "components": [1]}
INSIDE: dict[str, tuple[object, str | None]] = {
    "our SBOM, signed": (envelope("https://cyclonedx.org/bom", OURS), None),
    "our SBOM in a bundle": ({"dsseEnvelope": envelope("https://cyclonedx.org/bom", OURS)}, None),
    "another SBOM": ({"dsseEnvelope": envelope("https://cyclonedx.org/bom", FALSE)}, "sbom"),
    "an SBOM of another kind": (envelope("https://spdx.dev/Document", {}), "sbom"),
    "our SBOM without a signature": (envelope("https://cyclonedx.org/bom", OURS, []), "sbom"),
    "who built it, signed": ({"dsseEnvelope": envelope(SLSA, {})}, None),
    "who built it, not signed": (envelope(SLSA, {}, []), "provenance"),
    "who signed it": (envelope("https://sigstore.dev/cosign/sign/v1", {}), None),
    "a signature alone": ({"messageSignature": {}}, None),
    "nothing": ({}, "provenance"),
    "a list": ([], "provenance"),
    "no base64": ({"payload": "!", "signatures": SIGNED}, "provenance"),
}


@pytest.mark.parametrize(("document", "claim"), INSIDE.values(), ids=INSIDE)
def test_a_signed_statement_is_weighed_by_what_it_says(document: object, claim: str | None) -> None:
    assert read_signed_claim(json.dumps(document).encode(), SBOM) == claim
    assert read_signed_claim(b"\xff", SBOM) == "provenance"
