"""How a document is attached to an image: a manifest of its own, which others find by its type and subject."""

from __future__ import annotations

import json
from pathlib import Path

from images.model import Descriptor
from images.oci.attachment import Attachment, subject
from images.oci.manifest import MANIFESTS, digest_of

IMAGE = b'{"the manifest": "of an image"}'
BILL = Attachment("sbom", "sbom.cdx.json", "application/vnd.cyclonedx+json", b"{}\n", (("a", "b"),))


def test_its_manifest_names_the_image_and_the_type_of_the_document() -> None:
    found = json.loads(BILL.manifest(subject(IMAGE)))

    assert found["mediaType"] == MANIFESTS[0] and found["artifactType"] == BILL.media_type
    assert found["subject"] == {"mediaType": MANIFESTS[0], "digest": digest_of(IMAGE), "size": len(IMAGE)}
    # The empty descriptor as the specification has it.
    empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert found["config"] == {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2}
    assert [(row["mediaType"], row["digest"]) for row in found["layers"]] == [(BILL.media_type, digest_of(BILL.data))]


def test_a_list_names_it_with_its_type_and_annotations() -> None:
    about = subject(IMAGE)

    entry = BILL.entry(about)

    assert (entry["digest"], entry["size"]) == (BILL.digest(about), len(BILL.manifest(about)))
    assert (entry["artifactType"], entry["annotations"]) == (BILL.media_type, {"a": "b"})


def test_equal_documents_of_other_images_are_others() -> None:
    assert BILL.digest(subject(IMAGE)) != BILL.digest(Descriptor(MANIFESTS[0], f"sha256:{'0' * 64}", 1))


def test_a_layout_has_every_part_by_its_digest(tmp_path: Path) -> None:
    BILL.write_layout(tmp_path / "layout", subject(IMAGE))

    blobs = {path.name: path.read_bytes() for path in (tmp_path / "layout/blobs/sha256").iterdir()}
    assert all(digest_of(data) == f"sha256:{name}" for name, data in blobs.items())
    assert set(blobs.values()) == {b"{}", BILL.data, BILL.manifest(subject(IMAGE))}
