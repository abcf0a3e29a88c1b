"""Where results and caches are written, and whether they outlive the container."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Callable

from multinode_image.errors import Refusal
from multinode_image.machine.files import can_write, name_by_content, read_file, write_in_private
from multinode_image.machine.image import release
from multinode_image.reading import first_set
from multinode_image.settings import Setting, overlay

CERTIFICATE = "/etc/multinode/ca.pem"

# The names of the directory for models: huggingface_hub/constants.py, and transformers/utils/hub.py before 5.0.
HUB_CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
OLD_CACHE = "TRANSFORMERS_CACHE"
WITHOUT_OLD_CACHE = (5, 0)
# What the libraries make in a cache, and write to again (huggingface_hub/constants.py, datasets/config.py).
PARTS = ("hub", "hub/.locks", ".locks", "datasets", "modules", "xet")

# What a path is asked: whether it can be written, or is there.
PathTest = Callable[[str], bool]


def read_mounts(mountinfo: str | None) -> Iterator[tuple[str, str, list[str]]]:
    """Yield mount point, kind of file system and options of each row of /proc/self/mountinfo (proc(5))."""
    for line in (mountinfo or "").splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) > 5:
            yield unescape(words[4]), after.partition(" ")[0], words[5].split(",")


def unescape(text: str) -> str:
    """Return a path without the kernel's octal escapes: a blank is written \\040."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def list_lost(paths: Iterable[str], mounts: Collection[str]) -> list[str]:
    """Return the paths that only the container's own root holds, so that what is there is lost with it."""

    def is_mounted(path: str) -> bool:
        return any(point != "/" and f"{path}/".startswith(f"{point}/") for point in mounts)

    return [path for path in paths if not is_mounted(os.path.realpath(path))]


def explain_closed(fact: str, path: str, elsewhere: str = "") -> Refusal:
    """Return the error of what this user may not read or write, with its owner; elsewhere: what else may be typed."""
    there = path
    while not os.path.lexists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    owner, uid = os.lstat(there or ".").st_uid, os.getuid()
    ways = [f"chown -R {uid} the directory on the host that is mounted there", f"docker run --user {owner}:0"]
    if owner == uid or there != path:
        ways = [f"mount a directory that this user may write (docker run -v results:{path})"]
    value = path if owner == uid else f"{path} of uid {owner}, and this is uid {uid}"
    return Refusal(fact, value, ", or ".join([*ways, *([elsewhere] if elsewhere else [])]))


def check_output(paths: Iterable[str], writable: PathTest, elsewhere: str) -> None:
    """Raise Refusal if one of the directories for results cannot be written; elsewhere: how to name another one."""
    for path in paths:
        if not writable(path):
            raise explain_closed("the directory for results cannot be written", path, elsewhere)


def choose_caches(environ: Mapping[str, str], home: str, writable: PathTest, exists: PathTest) -> dict[str, str]:
    """Return another HF_HOME if the one that is set cannot be written; empty if it can stay, or none is better.

    Models that are in it, as in a volume mounted read-only for many pods, are still read from there.
    """
    below = f"{home}/.cache/huggingface"
    now = find_downloads(environ)
    if writable(now) or not writable(below):
        return {}
    hub = {} if first_set(environ, HUB_CACHES) or not exists(f"{now}/hub") else {HUB_CACHES[0]: f"{now}/hub"}
    return {"HF_HOME": below, **hub}


def find_caches(environ: Mapping[str, str], transformers: str) -> list[Setting]:
    """Return the variables that move the caches of the hub's libraries to where they can be written and are read."""
    models = move_models(environ, transformers)
    environ = overlay(environ, models)
    moved = choose_caches(environ, environ.get("HOME", "/tmp"), can_write, os.path.isdir)
    return [
        *models,
        *(Setting(name, path, f"{find_downloads(environ)} cannot be written") for name, path in moved.items()),
    ]


def move_models(environ: Mapping[str, str], transformers: str) -> list[Setting]:
    """Return the variable that takes the place of TRANSFORMERS_CACHE where transformers does not read it any more."""
    old = environ.get(OLD_CACHE)
    if not old or release(transformers) < WITHOUT_OLD_CACHE or first_set(environ, HUB_CACHES):
        return []
    return [Setting(HUB_CACHES[0], old, f"transformers {transformers} does not read {OLD_CACHE}")]


def expand_user(path: str, home: str) -> str:
    """Return a path with a home in the place of a `~` at its beginning: the user's, or that of a named one."""
    if not path.startswith("~"):
        return path
    return home + path[1:] if path[1:2] in ("", "/") else os.path.expanduser(path)


def find_downloads(environ: Mapping[str, str]) -> str:
    """Return the directory in which the hub's libraries keep what they download (huggingface_hub/constants.py)."""
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '')}/.cache"
    return expand_user(environ.get("HF_HOME") or f"{cache}/huggingface", environ.get("HOME", ""))


def find_closed(caches: Iterable[str], writable: PathTest) -> list[str]:
    """List what another user has left in caches of ours; what is mounted read-only is meant to be."""
    parts = sorted({f"{cache}/{name}" for cache in caches for name in PARTS})
    there = (path for path in parts if os.path.isdir(path) and not os.statvfs(path).f_flag & os.ST_RDONLY)
    return [path for path in there if writable(os.path.dirname(path)) and not writable(path)]


def find_models(environ: Mapping[str, str], transformers: str) -> str:
    """Return the directory of downloaded models."""
    names = HUB_CACHES if release(transformers) >= WITHOUT_OLD_CACHE else (OLD_CACHE, *HUB_CACHES)
    return expand_user(first_set(environ, names) or f"{find_downloads(environ)}/hub", environ.get("HOME", ""))


def list_caches(environ: Mapping[str, str], transformers: str) -> dict[str, str]:
    """Return where models and data sets are kept, by name; one directory where both are in HF_HOME."""
    home, user = find_downloads(environ), environ.get("HOME", "")
    data = expand_user(environ.get("HF_DATASETS_CACHE") or f"{home}/datasets", user)  # datasets/config.py
    models = find_models(environ, transformers)
    if all(path.startswith(f"{home}/") for path in (models, data)):
        return {"caches": home}
    return {"models": models, "data sets": data}


# The certificate mounted at /etc/multinode/ca.pem, which every program inside trusts beside the system's.

BEGIN = "-----BEGIN CERTIFICATE-----"
# Where Debian, Fedora and openSUSE keep the bundle: Go, src/crypto/x509/root_linux.go.
SYSTEM = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
CERTIFI = "certifi/cacert.pem"
# Who reads which: SSL_CERT_FILE is OpenSSL's (Python's ssl, httpx, aiohttp, curl) and rustls-native-certs' (hf_xet);
# requests, and pip with it, read REQUESTS_CA_BUNDLE, then CURL_CA_BUNDLE; curl CURL_CA_BUNDLE, then SSL_CERT_FILE; git
# has its own. Our value for the first name would hide the second from a
# program, so that it is left out where the user has set the second.
VARIABLES = (
    ("SSL_CERT_FILE", ""),
    ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    ("CURL_CA_BUNDLE", "SSL_CERT_FILE"),
    ("GIT_SSL_CAINFO", ""),
)


def read_bundle(site: str, read: Callable[[str], str | None]) -> tuple[str, str]:
    """Return the mounted certificate with the system's, or with certifi's where the image has no other.

    One that cannot be used gives no text, but what is wrong with it.
    """
    mounted = read(CERTIFICATE)
    if mounted is None:
        # Docker makes a directory of a file that is missing on the host.
        return "", f"{CERTIFICATE} is mounted and cannot be read as a file: does it exist on the host?"
    if BEGIN not in mounted:
        remedy = "openssl x509 -inform der -in ca.der -out ca.pem"
        return "", f"{CERTIFICATE} has no certificate in PEM form, so nothing more is trusted: {remedy}"
    texts = (read(path) for path in (*SYSTEM, f"{site}/{CERTIFI}"))
    known = next((text for text in texts if text), "")
    return "".join(f"{text.rstrip()}\n" for text in (known, mounted) if text), ""


def point_to(path: str, environ: Mapping[str, str]) -> list[Setting]:
    """Return the variables by which every program finds the bundle; they are defaults, a value of the user's stays."""
    why = f"{CERTIFICATE} and the system's certificates"
    return [Setting(name, path, why) for name, hidden in VARIABLES if not environ.get(hidden)]


def trust_certificate(environ: Mapping[str, str], site: str) -> tuple[list[Setting], list[str]]:
    """Write the bundle; return variables that point at it, and notes on what is wrong with the mounted certificate."""
    bundle, fault = read_bundle(site, read_file)
    if fault:
        return [], [fault]
    path = name_by_content("ca-bundle.pem", bundle)
    write_in_private(path, bundle)
    return point_to(path, environ), []
