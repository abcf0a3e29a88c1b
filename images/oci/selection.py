"""Which image of an index is meant: the one for a platform, or each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from images.host.errors import UserFault, WorldFault
from images.model import Descriptor, Manifest
from images.oci.indexes import entry_of
from images.oci.manifest import (
    DAMAGED,
    INDEXES,
    MANIFESTS,
    check,
    digest_of,
    list_of,
    mapping,
    parse,
    parse_descriptor,
    read,
)
from images.platforms import PLATFORMS, Platform, platform_of

UNKNOWN = "unknown/unknown"  # what attestations are for, which are no images
NESTED = 3  # an index may hold an index; nobody nests deeper


def resolve(get: Callable[[str | None], bytes], name: str, platform: Platform) -> Manifest:
    """Find the manifest for a platform; `get` brings one by its digest, or for None the one that the name means.

    Raises UserFault when there is none for this platform or it is no image, WorldFault when it is damaged.
    """
    data = get(None)
    for _ in range(NESTED):
        raw = read(data, name)
        if "manifests" not in raw:
            return parse(raw, digest_of(data), name)
        data = _checked(get, choose(list_of(raw, "manifests", name), name, platform).digest, name)
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def every(
    get: Callable[[str | None], bytes], name: str, asked: Platform | None
) -> tuple[list[str], list[tuple[Platform | None, Manifest]]]:
    """Find the images of a name, or the one for a platform, with what an index says that each is for.

    `get` is that of `resolve`. The digests are those of the indexes on the way, and of the only image. Raises UserFault
    where an engine might run something else: for an index of several that `published` never writes.
    """
    data, platform = get(None), asked
    way = list[str]()
    for _ in range(NESTED):
        raw = read(data, name)
        way.append(digest_of(data))
        if "manifests" not in raw:
            return way, [(platform, parse(raw, way[-1], name))]
        entries = list_of(raw, "manifests", name)
        if asked:
            choose(entries, name, asked)
        listed = {(parse_descriptor(entry, name).digest, _system(entry, name)) for entry in entries}
        if len(listed) != 1:
            return way, [each for each in _each(get, raw, name) if asked in (None, each[0])]
        [(digest, system)] = listed
        data, platform = _checked(get, digest, name), asked or platform_of("/".join(system))
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def _each(
    get: Callable[[str | None], bytes], raw: Mapping[str, Any], name: str
) -> list[tuple[Platform | None, Manifest]]:
    """Return the images of an index that has one for each of its platforms, and nothing else.

    What is for no platform, as an attestation of BuildKit, is run by whoever asks for unknown/unknown.
    """
    free = {str(each): each for each in PLATFORMS}
    odd = [*(raw.keys() - {"schemaVersion", "mediaType", "manifests"})]
    found = list[tuple[Platform | None, Manifest]]()
    for entry in list_of(raw, "manifests", name):
        platform, digest = free.pop("/".join(_system(entry, name)), None), parse_descriptor(entry, name).digest
        data = _checked(get, digest, name) if platform else b""
        if platform and entry == entry_of(data, platform):
            found.append((platform, parse(read(data, name), digest, name)))
        else:
            odd.append(digest)
    if odd or not found:
        fact = "an index has something else than one image for each platform"
        raise UserFault(fact, f"{name} ({', '.join(sorted(odd)) or 'nothing'})", "NAME@sha256:... of the one you mean")
    return found


def _checked(get: Callable[[str | None], bytes], digest: str, name: str) -> bytes:
    data = get(digest)
    check(data, digest, name)
    return data


def choose(entries: Sequence[object], name: str, platform: Platform) -> Descriptor:
    """Choose the entry of an index for a platform, by preference the one for every such processor.

    One that does not say what it is for is for any. Raises UserFault when there is none.
    """
    found: list[tuple[bool, Descriptor]] = []
    for entry in entries:
        descriptor, said = parse_descriptor(entry, name), _platform(entry, name)
        system = (said.get("os", platform.os), said.get("architecture", platform.architecture))
        if system == (platform.os, platform.architecture) and descriptor.media_type in (*MANIFESTS, *INDEXES):
            found.append((bool(said.get("variant")), descriptor))
    if found:
        return min(found, key=lambda pair: pair[0])[1]
    systems = dict.fromkeys("/".join(_system(entry, name)) for entry in entries)
    offered = ", ".join(each for each in systems if each != UNKNOWN) or "nothing"
    others = [f"--platform {each}" for each in PLATFORMS if str(each) in systems]
    remedy = " or ".join([f"an image for {platform}", *others])
    raise UserFault(f"no image for {platform}", f"{name} (it has {offered})", remedy)


def _platform(entry: object, name: str) -> Mapping[str, Any]:
    return mapping(mapping(entry, name).get("platform") or {}, name)


def _system(entry: object, name: str) -> tuple[str, str]:
    """Return the operating system and the architecture of an entry, empty where it does not say them."""
    said = _platform(entry, name)
    return str(said.get("os") or ""), str(said.get("architecture") or "")
