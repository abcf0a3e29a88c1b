"""Names in a pod, by the grammars of those who look them up: an image, objects of the cluster, labels and variables.

A pod whose image or claim has no possible name is made, and never starts. One with a label or a variable that has none
is not even made: a Job says so when it is applied, an operator only in the events of its job. What a page or a remedy
writes in the place of an image or an object (`<DIGEST>`, `IMAGE`, `CLAIM`) is no name in their grammars.
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
# Labels, keys of taints and variables: IsQualifiedName, IsValidLabelValue and IsEnvVarName there.
WORD = r"(?=.{1,63}\Z)[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
KEY, VALUE = re.compile(rf"(?:([^/]*)/)?{WORD}"), re.compile(rf"(?:{WORD})?")
VARIABLE = re.compile(r"(?!\.\.|\.\Z)[A-Za-z_.-][A-Za-z0-9_.-]*")


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


def read_key(text: str) -> str:
    """Return the key of a label or of a taint: `zone`, or `example.org/zone`."""
    key = KEY.fullmatch(text)
    if not key or (key[1] is not None and not OBJECT.fullmatch(key[1])):
        raise Wrong(f"takes a key of letters, digits, - _ and . within, such as example.org/zone, not {text!r}")
    return text


def read_value(text: str) -> str:
    """Return the value of a label or of a taint, which may be empty."""
    if not VALUE.fullmatch(text):
        raise Wrong(f"takes a value of at most 63 letters, digits, - _ and . within, not {text!r}")
    return text


def read_name(text: str) -> str:
    """Return the name of a variable that every release of Kubernetes sets."""
    if not VARIABLE.fullmatch(text):
        raise Wrong(f"takes the name of a variable: letters, digits, _ - and ., no digit first, not {text!r}")
    return text
