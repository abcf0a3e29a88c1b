"""/etc/ssl/certs: the bundle, and the links by hash of the subject that `openssl rehash` makes (X509_NAME_hash)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence

from images.dpkg.tree import PackageTree

PLACE = "etc/ssl/certs"
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END")
UTF8 = 12
STRINGS = {UTF8: "utf-8", 19: "utf-8", 20: "latin-1", 22: "utf-8", 26: "utf-8", 28: "utf-32-be", 30: "utf-16-be"}
BLANKS = " \t\n\v\f\r"
VERSION, SEQUENCE = 0xA0, 0x30
RENAMED = str.maketrans(" (),", "_==_")


def install_certificates(tree: PackageTree, base: str, names: Sequence[str]) -> None:
    """Write the bundle of certificates below a directory, and the links to each.

    Raises LookupError or ValueError for what is no certificate.
    """
    links, bundle = dict[str, tuple[str, bytes]](), b""
    for name in names:
        data = tree.entries[f"{base}/{name}"].data
        bundle += data if data.endswith(b"\n") else data + b"\n"
        pem = name.rsplit("/", 1)[-1].removesuffix(".crt").translate(RENAMED) + ".pem"
        links[pem] = f"/{base}/{name}", data
    taken: dict[str, int] = {}
    for pem, (target, data) in sorted(links.items()):
        tree.link(f"{PLACE}/{pem}", target)
        digits = subject_hash(data)
        number = taken[digits] = taken.get(digits, -1) + 1
        tree.link(f"{PLACE}/{digits}.{number}", pem)
    tree.file(f"{PLACE}/ca-certificates.crt", bundle)


def subject_hash(pem: bytes) -> str:
    """Return the 8 digits of a certificate: SHA-1 of its subject, in lower case and with single blanks.

    Raises LookupError or ValueError for what is no certificate.
    """
    match = PEM.search(pem)
    if match is None:
        raise ValueError("no certificate in a file of certificates")
    (_, certificate), *_ = _read_elements(base64.b64decode(match[1]))
    (_, signed), *_ = _read_elements(certificate)
    body = list(_read_elements(signed))
    _, subject = body[5 if body[0][0] == VERSION else 4]
    names = b"".join(_der(tag, _canonical_name(name)) for tag, name in _read_elements(subject))
    return hashlib.sha1(names, usedforsecurity=False).digest()[3::-1].hex()


def _canonical_name(name: bytes) -> bytes:
    """Write the pairs of a name as OpenSSL compares them."""
    out = b""
    for _, pair in _read_elements(name):
        kind, (tag, value) = _read_elements(pair)
        if tag in STRINGS:
            text = re.sub(f"[{BLANKS}]+", " ", value.decode(STRINGS[tag]).strip(BLANKS))
            tag, value = UTF8, "".join(letter.lower() if letter.isascii() else letter for letter in text).encode()
        out += _der(SEQUENCE, _der(*kind) + _der(tag, value))
    return out


def _read_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and value of each element of DER (X.690)."""
    at = 0
    while at < len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, start = int.from_bytes(data[start : start + count], "big"), start + count
        if start + size > len(data):
            raise ValueError("a certificate is cut short")
        yield tag, data[start : start + size]
        at = start + size


def _der(tag: int, value: bytes) -> bytes:
    size = len(value)
    length = -(-size.bit_length() // 8)
    head = bytes([size]) if size < 0x80 else bytes([0x80 | length]) + size.to_bytes(length, "big")
    return bytes([tag]) + head + value
