"""What Kubernetes takes in a field: names, labels, taints, quantities; each reader raises Refusal for anything else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from entrypoint.errors import Refusal

# k8s.io/apimachinery, pkg/util/validation/validation.go: IsDNS1035Label, IsDNS1123Label, IsDNS1123Subdomain,
# IsQualifiedName, IsValidLabelValue, IsEnvVarName, IsConfigMapKey.
LABEL, SUBDOMAIN, KEY = 63, 253, 63
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS_1123_SUBDOMAIN = re.compile(rf"{DNS_1123.pattern}(\.{DNS_1123.pattern})*")
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
NO_STEP = r"(?!\.\.|\.\Z)"  # hasChDirPrefix: neither `.` nor what begins with `..`
VARIABLE = re.compile(rf"{NO_STEP}[-._a-zA-Z][-._a-zA-Z0-9]*")
SECRET_KEY = re.compile(rf"{NO_STEP}[-._a-zA-Z0-9]+")
# What a kubelet replaces in a value: third_party/forked/golang/expansion/expand.go of Kubernetes.
REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")  # core/v1, TaintEffect

# k8s.io/apimachinery, pkg/api/resource/quantity.go; the same expression is the `pattern` in Kubeflow's definitions.
QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?")
POWERS = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
LONGEST = 24  # characters of a quantity; a longer one is a typing error
MOST_CPUS = 4096

# The grammar of github.com/distribution/reference. Kubernetes asks a registry for it and knows no `oci:` or `archive:`.
COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
HOST = r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
IMAGE = re.compile(
    rf"(?:{HOST}/)?{COMPONENT}(?:/{COMPONENT})*(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.A
)
# Where a volume would hide what the image or the kernel has there, or another volume is.
TAKEN = (
    "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt/multinode", "/proc", "/run", "/sbin", "/sys", "/usr", "/var",
    "/workspace/transformers",
)  # fmt: skip
LONGEST_IMAGE = 500  # maxLength of spec.trainer.image in the definition of TrainJob


def read_name(text: str, option: str, *, longest: int = LABEL) -> str:
    """Return a name that an object, its pods and its service may have: a DNS label that begins with a letter."""
    if len(text) > longest or not DNS_1035.fullmatch(text):
        what = f"{option} takes small letters, digits and -, from a letter to a letter or digit, at most {longest}"
        raise Refusal(what, repr(text), f"{option} {suggest_name(text, longest)}")
    return text


def suggest_name(text: str, longest: int) -> str:
    """Return the nearest name that Kubernetes takes."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").lstrip("0123456789-")
    return plain[:longest].rstrip("-") or "transformers"


def read_object(text: str, option: str) -> str:
    """Return the name of an object that exists, such as a claim, a secret or a class: a DNS subdomain."""
    if len(text) > SUBDOMAIN or not DNS_1123_SUBDOMAIN.fullmatch(text):
        what = f"{option} takes the name of an object: small letters, digits, - and ., at most {SUBDOMAIN}"
        raise Refusal(what, repr(text), f"{option} {suggest_name(text, SUBDOMAIN)}")
    return text


def read_namespace(text: str, option: str) -> str:
    """Return a namespace: a DNS label."""
    if len(text) > LABEL or not DNS_1123.fullmatch(text):
        what = f"{option} takes small letters, digits and -, at most {LABEL}"
        raise Refusal(what, repr(text), f"{option} {suggest_name(text, LABEL)}")
    return text


def read_image(text: str, option: str) -> str:
    """Return an image that a kubelet can pull: NAME, NAME:TAG, NAME@sha256:... or both."""
    if len(text) > LONGEST_IMAGE or not IMAGE.fullmatch(text):
        what = f"{option} takes an image in a registry"
        raise Refusal(what, repr(text), f"{option} registry.example/multinode:TAG, or @sha256:... in the place of :TAG")
    return text


def read_label(text: str, option: str) -> tuple[str, str]:
    """Return the key and value of a label, `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    good = is_key(key) and len(value) <= KEY and (not value or QUALIFIED.fullmatch(value))
    if not equals or not good:
        raise Refusal(f"{option} takes the label of a node, KEY=VALUE", repr(text), f"{option} node-type=spr")
    return key, value


def is_key(text: str) -> bool:
    """Return whether a text is the key of a label or taint: a name, perhaps behind a DNS subdomain and a slash."""
    prefix, slash, name = text.rpartition("/")
    domain = len(prefix) <= SUBDOMAIN and DNS_1123_SUBDOMAIN.fullmatch(prefix) is not None
    return (not slash or domain) and len(name) <= KEY and QUALIFIED.fullmatch(name) is not None


def read_queue(text: str, option: str) -> str:
    """Return the name of a LocalQueue of Kueue: a DNS subdomain that is the value of a label."""
    if len(text) > LABEL or not DNS_1123_SUBDOMAIN.fullmatch(text):
        raise Refusal(f"{option} takes the name of a LocalQueue", repr(text), f"{option} {suggest_name(text, LABEL)}")
    return text


def read_toleration(text: str, option: str) -> dict[str, str]:
    """Return the toleration of a taint as `kubectl taint` writes it, KEY=VALUE:EFFECT; the key alone is enough."""
    taint, colon, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    good = is_key(key) and len(value) <= KEY and (not value or QUALIFIED.fullmatch(value))
    if not good or (colon and effect not in EFFECTS):
        what = f"{option} takes a taint, KEY, KEY=VALUE or KEY=VALUE:EFFECT with {', '.join(EFFECTS)}"
        raise Refusal(what, repr(text), f"{option} dedicated=training:NoSchedule")
    rest = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **rest, **({"effect": effect} if colon else {})}


def is_text(text: str) -> bool:
    """Return whether a text can be an argument or a variable, and be written in YAML: Unicode without NUL."""
    try:
        return "\0" not in text and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def read_variable(text: str, option: str) -> tuple[str, str]:
    """Return the name and value of a variable, `NAME=VALUE`; a token is refused, for it is to be in a Secret."""
    name, equals, value = text.partition("=")
    if not equals or not VARIABLE.fullmatch(name):
        raise Refusal(f"{option} takes a variable, NAME=VALUE", repr(text), f"{option} LOGLEVEL=INFO")
    if not is_text(value):
        raise Refusal(f"{option} has a value that no container can be given", repr(text), f"{option} {name}=VALUE")
    if name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        raise token_refusal(f"{option} {name}")
    return name, value


def expand(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables as a container has them: `$(NAME)` is the value of an earlier one, and $$ is $."""
    found: dict[str, str] = {}
    for name, text in variables.items():
        found[name] = REFERENCE.sub(lambda part: "$" if part[0] == "$$" else found.get(part[1], part[0]), text)
    return found


def token_refusal(given: str) -> Refusal:
    """Return what is said of a token that would stand in a manifest."""
    make = "kubectl create secret generic hf-token --from-literal=HF_TOKEN=..., then --token-secret hf-token"
    return Refusal("a token in a manifest is read by everybody who reads the manifest", given, make)


def read_secret(text: str, option: str) -> tuple[str, str]:
    """Return a Secret and the key in it that has the token, `NAME` or `NAME:KEY`; the key is HF_TOKEN by default."""
    name, colon, key = text.partition(":")
    key = key if colon else "HF_TOKEN"
    if len(key) > SUBDOMAIN or not SECRET_KEY.fullmatch(key):
        raise Refusal(f"{option} takes a Secret and a key in it, NAME:KEY", repr(text), f"{option} hf-token:HF_TOKEN")
    return read_object(name, option), key


def read_quantity(text: str) -> Fraction | None:
    """Return the number that a quantity stands for; None if it is none, or not above zero."""
    found = QUANTITY.fullmatch(text) if len(text) <= LONGEST and text.isascii() else None
    if found is None:
        return None
    digits, suffix = found[1], found[2] or ""
    if suffix in BINARY:
        factor = Fraction(1024) ** BINARY[suffix]
    elif suffix in POWERS:
        factor = Fraction(1000) ** POWERS[suffix]
    else:
        factor = Fraction(10) ** int(suffix[1:])
    value = Fraction(digits) * factor
    return value if value > 0 else None


def read_cpu(text: str, option: str) -> Fraction:
    """Return a number of CPUs, `32` or `1500m`; Kubernetes counts none finer than a thousandth."""
    value = read_quantity(text)
    if value is None or text.endswith("i") or value > MOST_CPUS or (value * 1000).denominator != 1:
        raise Refusal(f"{option} takes a number of CPUs up to {MOST_CPUS}", repr(text), f"{option} 32")
    return value


def read_memory(text: str, option: str) -> int:
    """Return a number of bytes, as in `64Gi`."""
    value = read_quantity(text)
    if value is None or value.denominator != 1:
        raise Refusal(f"{option} takes a number of bytes, with Ki, Mi, Gi or Ti", repr(text), f"{option} 64Gi")
    return int(value)


def read_path(text: str, option: str) -> str:
    """Return an absolute directory in a container, without a slash at its end; Kubernetes takes none with a colon."""
    parts = text.split("/")
    if not text.startswith("/") or text == "/" or ":" in text or not is_text(text) or {".", ".."} & set(parts):
        raise Refusal(
            f"{option} takes an absolute directory in the container", repr(text), f"{option} /workspace/output"
        )
    path = "/" + "/".join(part for part in parts if part)
    if path == "/tmp" or any(f"{path}/".startswith(f"{each}/") or each.startswith(f"{path}/") for each in TAKEN):
        fact = "a volume there would hide what the image has, or another volume"
        raise Refusal(fact, f"{option} {path}", f"{option} /workspace/output")
    return path


def read_count(text: str, option: str, least: int, most: int) -> int:
    """Return a whole number between two others."""
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
    if value is None or not least <= value <= most:
        remedy = f"{option} {min(most, max(least, 2))}"
        raise Refusal(f"{option} takes a number from {least} to {most}", repr(text), remedy)
    return value


def read_range(text: str, option: str, most: int) -> tuple[int, int]:
    """Return the smallest and the largest number of workers, `1:4`."""
    first, colon, last = text.partition(":")
    if not colon:
        raise Refusal(f"{option} takes the fewest and the most workers, MIN:MAX", repr(text), f"{option} 1:4")
    low, high = read_count(first, option, 1, most), read_count(last, option, 1, most)
    if low > high:
        raise Refusal(f"{option} has more workers at least than at most", repr(text), f"{option} {high}:{low}")
    return low, high
