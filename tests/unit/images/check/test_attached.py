"""Which documents beside an image are taken for ours: by every name of an SBOM or a statement."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from images.check.provenance import CYCLONEDX, IN_TOTO, PREDICATE_KEY, read_claim, read_signed_claim

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
