"""Names that pods ask for, by the grammars of those who look them up: an image, and other objects of the cluster.

A pod whose image or claim has no possible name is made, and never starts. What a page or a remedy writes in a name's
place (`<DIGEST>`, `IMAGE`, `CLAIM`) is no name in any of these grammars.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError as Wrong

from multinode_image.errors import Refusal

# A kubelet reads a reference as Docker does: reference.go and regexp.go of github.com/distribution/reference.
LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
DOMAIN = rf"(?:{LABEL}(?:\.{LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"(?![0-9a-f]{{64}}\Z)(?:{DOMAIN}/)?{COMPONENT}(?:/{COMPONENT})*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Of a digest's algorithms those that Go's crypto has (algorithm.go of github.com/opencontainers/go-digest).
DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
LONGEST = 255
EXAMPLE = "registry.example/multinode:1"

# Most objects: a DNS subdomain (IsDNS1123Subdomain in apimachinery/pkg/util/validation of Kubernetes).
PART = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
OBJECT = re.compile(rf"(?=.{{1,253}}\Z){PART}(?:\.{PART})*")


def read_image(text: str) -> str:
    """Return a reference of an image, `[HOST/]NAME[:TAG][@DIGEST]`; raise Refusal for what no node could pull."""
    named, at, digest = text.partition("@")
    slash, colon = named.rfind("/"), named.rfind(":")
    name, tag = (named[:colon], named[colon + 1 :]) if colon > slash else (named, "latest")
    if not REPOSITORY.fullmatch(name) or len(name) > LONGEST:
        fact = "that is not the name of an image, which has small letters, digits, and . _ - within"
        raise Refusal(fact, repr(text), f"--image {EXAMPLE}, with the name of yours")
    if not TAG.fullmatch(tag):
        raise Refusal("that is not a tag", f"{tag!r} in {text!r}", f"--image {name}:1, with the tag of yours")
    if at and not DIGEST.fullmatch(digest):
        tagged = named if colon > slash else f"{name}:1"
        remedy = f"--image {named}@sha256: with the 64 digits that build.py --push prints; or a tag, --image {tagged}"
        raise Refusal("that is not a digest", f"{digest!r} in {text!r}", remedy)
    return text


def read_object(text: str) -> str:
    """Return the name of an object that has to be there when pods start, such as a claim or a Secret."""
    if not OBJECT.fullmatch(text):
        raise Wrong(f"takes the name of an object in the cluster: small letters, digits, - and . within, not {text!r}")
    return text
