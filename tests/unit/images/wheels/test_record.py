"""RECORD has a strong hash and the size of every file, or the wheel is refused."""

from __future__ import annotations

import base64
import hashlib

import pytest

from images.wheels import record

DATA = b"content"
HASHES = {
    name: f"{name}=" + base64.urlsafe_b64encode(hashlib.new(name, DATA).digest()).decode().rstrip("=")
    for name in ("md5", "sha1", "sha256", "sha384", "sha512")
}
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not list 'a', 'b', 'c' and 1 more"),
        (f"a,{HASHES['sha256']},7\n", "does not list 'b', 'c', 'd'"),
        ("a,,\nb,,\nc,,\nd,,\n", "has no hash of 'a'"),
        (f"a,{HASHES['md5']},7\nb,,\nc,,\nd,,\n", "has no hash of 'a'"),
        (f"a,{HASHES['sha1']},7\nb,,\nc,,\nd,,\n", "has no hash of 'a'"),
        ("a,sha256,7\nb,,\nc,,\nd,,\n", "RECORD of 'a'"),
        (f"a,{HASHES['sha256']},many\nb,,\nc,,\nd,,\n", "RECORD of 'a'"),
        ("".join(f"{name},{HASHES['sha256']},8\n" for name in "abcd"), "another size of 'a'"),
        ("".join(f"{name},{HASHES['sha256']},\n" for name in "abcd"), "another size of 'a'"),
        ("a,b\n", "cannot be read"),
        ("x" * 140_000, "cannot be read"),
        ("\0,,\n", "does not list|cannot be read"),
    ],
)
def test_what_is_not_complete_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        record.read(text, dict.fromkeys("abcd", len(DATA)))


@pytest.mark.parametrize("algorithm", record.ALGORITHMS)
def test_content_is_compared_by_each_algorithm(algorithm: str) -> None:
    row = record.read(f"a,{HASHES[algorithm]},7\nunknown,,\n", {"a": len(DATA)})["a"]

    record.refuse_content(row, hashlib.new(algorithm, DATA).digest())
    with pytest.raises(ValueError, match="another hash of 'a'"):
        record.refuse_content(row, hashlib.new(algorithm, b"changed").digest())


@pytest.mark.parametrize("algorithm", record.ALGORITHMS)
def test_only_a_sha256_is_taken_for_one(algorithm: str) -> None:
    row = record.read(f"a,{HASHES[algorithm]},7\n", {"a": len(DATA)})["a"]

    assert record.sha256_of(row) == (SHA256 if algorithm == "sha256" else None)
    assert record.sha256_of(None) is None


def test_what_is_written_is_read() -> None:
    files = {"a.py": DATA, "a-1.dist-info/WHEEL": b""}

    text = record.write(files, "a-1.dist-info")

    assert text.endswith("\na-1.dist-info/RECORD,,\n")
    for name, row in record.read(text, {name: len(data) for name, data in files.items()}).items():
        record.refuse_content(row, hashlib.sha256(files[name]).digest())
