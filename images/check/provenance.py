"""How an image was made, as an in-toto statement, and the documents that are attached to it in a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packageurl import PackageURL

from images.base.base import BaseImage
from images.check.sbom import name_suite
from images.content import FIELDS, option_key
from images.context import Access
from images.deliver import registry
from images.deliver.registry import Attachment
from images.foreign.documents import parse_json
from images.host.errors import WorldFault, shortened, shown
from images.lock import lockfile
from images.lock.lock import Lock
from images.oci import reference
from images.oci.indexes import annotations_of
from images.oci.manifest import digest_of
from images.oci.reference import Remote
from images.plan.user_files import WORKSPACE

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:multinode:build:v1"  # what externalParameters and resolvedDependencies mean, as it stands below
BUILDER = "urn:multinode:build.py"  # on whatever machine; who ran it is said by a signature

# What was asked for, as the lock has it, so that the words of different requests do not make it differ.
ASKED = (*map(option_key, (*lockfile.ASKED, *(one.name for one in FIELDS))), "as-of", "family-as-of", "machine")


def write_statement(lock: Lock, digest: str) -> str:
    """Return the statement about an image of this lock, by the digest of its manifest, as JSON.

    It is not signed. Equal images have equal statements.
    """
    table = lockfile.lock_fields(lock)["tool"]["multinode"]
    definition = {
        "buildType": BUILD,
        "externalParameters": {name: _as_plain(table[name]) for name in ASKED if name in table}
        | _user_parameters(lock),
        "internalParameters": table["tools"],
        "resolvedDependencies": [*_dependencies(lock)],
    }
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": lock.tag, "digest": _digest(digest)}],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": {"id": BUILDER}}},
    }
    return json.dumps(statement, indent=1, ensure_ascii=False) + "\n"


def _user_parameters(lock: Lock) -> dict[str, object]:
    parameters: dict[str, object] = {"user-packages": [*lock.user_packages.requirements]} if lock.user_packages else {}
    return parameters | ({"user-files": [row.path for row in lock.user_files]} if lock.user_files else {})


def _dependencies(lock: Lock) -> Iterator[dict[str, Any]]:
    """Yield the lock, and every file that goes in by it, with the address of its package (purl)."""
    yield _resource(lockfile.NAME, None, digest_of(lockfile.format_lock(lock).encode()))
    if lock.base_image:
        yield _describe_base(lock.base_image)
    for deb in lock.debian.debs:
        qualifiers = {"arch": deb.architecture, "distro": name_suite(lock.debian.suite)}
        yield _resource(deb.filename, PackageURL("deb", "debian", deb.package, deb.version, qualifiers), deb.sha256)
    for artifact in lock.added:
        yield _resource(artifact.filename, PackageURL("pypi", None, artifact.name, artifact.version), artifact.sha256)
    if lock.examples:
        purl = PackageURL("generic", None, "transformers-examples", lock.transformers)
        yield _resource(lock.examples.filename, purl, lock.examples.sha256)
    for row in lock.user_files or ():
        if row.sha256:
            yield _resource(f"{WORKSPACE}/{row.path}", None, row.sha256)


def _describe_base(image: BaseImage) -> dict[str, Any]:
    """Return a base of others; one from disk has no name."""
    digest, named = image.manifest.digest, reference.parse_reference(image.reference) if image.reference else None
    place = f"{named.host}/{named.name}" if isinstance(named, reference.Remote) else None
    qualifiers = {"repository_url": place} if place else {}
    purl = PackageURL("oci", None, (place or "base").rpartition("/")[2], digest, qualifiers)
    return _resource(image.reference or "base", purl, digest)


def _resource(name: str, purl: PackageURL | None, digest: str) -> dict[str, Any]:
    return {"name": name, **({"uri": str(purl)} if purl else {}), "digest": _digest(digest)}


def _digest(text: str) -> dict[str, str]:
    return {"sha256": text.removeprefix("sha256:")}


def _as_plain(value: object) -> object:
    return value if isinstance(value, bool | list) else str(value)


# The documents that are attached to an image in a registry: its SBOM and its provenance, as others look for them.

PREDICATE_KEY = "in-toto.io/predicate-type"  # by which BuildKit and Docker name what a statement says
# artifactType: what Trivy and `oras discover` look for, and cosign lists.
CYCLONEDX, IN_TOTO = "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"
# Words in the types of SBOMs and of statements: SPDX, CycloneDX, Syft; in-toto, SLSA. Envelopes are signed, and
# say inside what they are: DSSE, Sigstore, what cosign has under a tag of its own.
SBOMS = ("sbom", "spdx", "cyclonedx", "syft")
STATEMENTS = ("in-toto", "intoto", "slsa", "provenance", "attestation")
ENVELOPES = ("dsse", "sigstore.bundle", "cosign's .att")

ASK = "ask who pushed it, and remove it (oras manifest delete)"
AGAIN = "push the image again: what is missing comes with it; or ask who removed it"


class Attached(NamedTuple):
    """What a registry has attached to an image: the documents of its build, name -> digest, None for one that is not.

    `others` is what nothing here can vouch for, such as signatures, by digest and type.
    """

    documents: Mapping[str, str | None]
    others: Sequence[str]


def write_documents(lock: Lock, sbom: str, manifest: bytes) -> tuple[Attachment, ...]:
    """Return the SBOM and the provenance of the image with this manifest."""
    statement = write_statement(lock, digest_of(manifest)).encode()
    said = ((PREDICATE_KEY, PREDICATE),)
    return (
        Attachment(manifest, "sbom", "sbom.cdx.json", CYCLONEDX, sbom.encode()),
        Attachment(manifest, "provenance", "provenance.json", IN_TOTO, statement, said),
    )


def compare_attached(known: Sequence[Attachment], indexes: Sequence[str], remote: Remote, access: Access) -> Attached:
    """Return which of the documents that are known a registry has attached to their image, and what it has besides.

    What is attached to the `indexes` that lead to the image, by their digests, is looked at as well.
    Raises WorldFault where there is another SBOM or provenance than the one that is known, or one is listed that is not
    there, or cannot be read whole.
    """
    ours = {document.digest: document for document in known}
    about, *above = (
        registry.list_attached(subject, remote, access) for subject in (digest_of(known[0].image), *indexes)
    )
    there = {str(entry["digest"]) for entry in about} & ours.keys()
    others = [entry for entry in about if entry["digest"] not in ours]
    others += [entry for entries in above for entry in entries]
    for entry in others:
        if name := _weigh_claim(entry, known, remote, access):
            value, remedy = f"{remote.called(entry['digest'])} ({name})", f"build.py {name} prints ours"
            raise WorldFault("a document is attached that is not the one of this build", value, f"{ASK}; {remedy}")
    for digest in there:
        if not registry.is_attached(ours[digest], remote, access):
            value = f"{remote.called(digest)} ({ours[digest].name})"
            raise WorldFault("a document is attached that the registry does not have", value, AGAIN)
    digests = {name: digest if digest in there else None for digest, name in ((d.digest, d.name) for d in known)}
    return Attached(digests, [*dict.fromkeys(map(_name_entry, others))])


def _weigh_claim(entry: Mapping[str, Any], known: Sequence[Attachment], remote: Remote, access: Access) -> str | None:
    if not any(word in _type(entry).lower() for word in ENVELOPES):
        return read_claim(entry)
    sbom = next(document.data for document in known if document.name == "sbom")
    inside = registry.read_documents(str(entry["digest"]), remote, access)
    return next(filter(None, (read_signed_claim(data, sbom) for data in inside)), None if inside else "provenance")


def read_claim(entry: Mapping[str, Any]) -> str | None:
    """Return which of our documents an entry is to be taken for, by what those who look for one may compare.

    A type of any SBOM or statement says so, in whatever letters; a signature alone does not. What a statement is about
    is believed where it is said.
    """
    about, called = [text.lower() for text in _list_predicates(entry)], _type(entry).lower()
    if any(word in text for text in (called, *about) for word in SBOMS):
        return "sbom"
    is_other = about and not any("provenance" in text for text in about)
    return "provenance" if any(word in called for word in STATEMENTS) and not is_other else None


def read_signed_claim(data: bytes, sbom: bytes) -> str | None:
    """Return which of our documents a signed statement is taken for, and is not: what it says is in an envelope.

    None for a signature alone, for our own `sbom` that somebody has signed, and for who else built or tested it: that
    is believed for its signature. What cannot be read, or is not signed, is no such thing.
    """
    try:
        outer = parse_json(data)
        if "messageSignature" in outer:
            return None
        envelope = outer.get("dsseEnvelope", outer)
        statement = parse_json(base64.b64decode(envelope["payload"], validate=True))
        about, is_signed = str(statement["predicateType"]).lower(), bool(envelope["signatures"])
        predicate = statement.get("predicate")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "provenance"
    if any(word in about for word in SBOMS):
        return None if is_signed and predicate == parse_json(sbom) else "sbom"
    return None if is_signed else "provenance"


def _list_predicates(entry: Mapping[str, Any]) -> list[str]:
    return [str(value) for key, value in annotations_of(entry).items() if "predicate" in str(key).lower()]


def _name_entry(entry: Mapping[str, Any]) -> str:
    about = " ".join((_type(entry), *_list_predicates(entry)))
    return shown(f"{entry['digest']} ({shortened(about, 200)})")


def _type(entry: Mapping[str, Any]) -> str:
    return str(entry.get("artifactType") or entry["mediaType"])
