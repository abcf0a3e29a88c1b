"""Names that pods ask for: what a node could pull, and what could be in a cluster."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import Fault
from images.oci.reference import push_target
from manifests.names import read_image, read_object
from multinode_image.errors import Refusal

DIGITS = "0123456789abcdef" * 4
TAKEN = f"""
a
multinode:1
multinode:torch2.13.0-transformers5.23.0
a@sha256:{DIGITS}
a:1@sha256:{DIGITS}
a@sha512:{DIGITS * 2}
localhost:5000/a/b__c--d.e:A_1
Registry.Example:443/a
[::1]:5000/a
docker.io/library/a
a/{DIGITS}
"""
# What is typed; a piece of the fact or the value; of what to type instead.
REFUSED = f"""
registry.example/a@sha256:<DIGEST>   | not a digest: 'sha256:<DIGEST>'      | a tag, --image registry.example/a:1
registry.example/a:2@sha256:<DIGEST> | not a digest: 'sha256:<DIGEST>'      | a tag, --image registry.example/a:2
h:5000/a@sha256:                     | not a digest: 'sha256:'              | --image h:5000/a@sha256: with
a@{DIGITS}                           | not a digest                         | --image a@sha256: with
a@sha256:{DIGITS[1:]}                | not a digest                         | or a tag, --image a:1
a@sha256:{DIGITS.upper()}            | not a digest                         | or a tag, --image a:1
a@md5:{DIGITS[:32]}                  | not a digest                         | or a tag, --image a:1
a@sha256:{DIGITS}@sha256:{DIGITS}    | not a digest                         | or a tag, --image a:1
IMAGE                                | not the name of an image             | --image registry.example/multinode:1
<NAME>                               | not the name of an image             | --image registry.example/multinode:1
registry.example/Multinode:1         | not the name of an image             | --image registry.example/multinode:1
https://registry.example/a           | not the name of an image             | --image registry.example/multinode:1
a/                                   | not the name of an image             | --image registry.example/multinode:1
{DIGITS}                             | not the name of an image             | --image registry.example/multinode:1
{"a" * 256}                          | not the name of an image             | --image registry.example/multinode:1
a:<TAG>                              | not a tag: '<TAG>'                   | --image a:1
a:                                   | not a tag: ''                        | --image a:1
a:{"1" * 129}                        | not a tag                            | --image a:1
"""


@pytest.mark.parametrize("text", TAKEN.split())
def test_a_reference_is_taken_as_it_is(text: str) -> None:
    assert read_image(text) == text


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_what_no_node_could_pull_is_refused(row: str) -> None:
    text, fact, remedy = (part.strip() for part in row.split(" | "))

    with pytest.raises(Refusal) as refused:
        read_image(text)

    assert fact in refused.value.finding and remedy in refused.value.remedy


@given(text=st.text("aA1._-:/@<\n[]", max_size=12))
def test_what_can_be_pushed_can_be_named_in_a_manifest(text: str) -> None:
    try:
        push_target(text)
    except Fault:
        return

    assert read_image(text) == text


@pytest.mark.parametrize(("text", "good"), [("a", True), ("a-1.b", True), ("a" * 253, True), ("a" * 254, False),
                                            ("CLAIM", False), ("<name>", False), ("a..b", False), ("-a", False),
                                            ("a\n", False), ("", False)])  # fmt: skip
def test_an_object_has_a_name_of_the_domain_name_system(text: str, good: bool) -> None:
    if good:
        assert read_object(text) == text
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            read_object(text)
