"""What went wrong at the hub, in three parts: by what the errors of several libraries and releases have in common."""

from __future__ import annotations

import errno

from entrypoint.errors import USER, WORLD, Refusal, list_causes

# What huggingface_hub raises for a file that is not in the cache, if it could not ask the hub; before 1.0 that is also
# an EntryNotFoundError (huggingface_hub/utils/_errors.py).
LOCAL = "LocalEntryNotFoundError"
# How the names end of errors for a connection that could not be made or broke: requests, httpx, urllib3, aiohttp.
UNREACHABLE = (
    "ConnectError", "ConnectionError", "Timeout", "TimeoutException", "ProtocolError", "URLError", "ReadError", LOCAL,
)  # fmt: skip
MISSING = {"EntryNotFoundError", "DatasetNotFoundError", "RevisionNotFoundError"}
# What is wrong with a name of a data set, and what to type instead: of huggingface_hub since 1.16; and of datasets,
# where the hub has a repository of the name without data in it.
DATA_SETS = {
    "HfUriError": (
        "datasets finds no data set without its owner",
        "OWNER/NAME in its place, as the page of the data set on the hub is called",
    ),
    "DataFilesNotFoundError": (
        "the data set has no files that datasets reads",
        "another --dataset_name, with its columns",
    ),
    "EmptyDatasetError": ("the data set has no files on the hub", "another --dataset_name, with its columns"),
}
FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM)
AGAIN = "run it again: what is in the cache already is kept"


def explain(error: BaseException, what: str, endpoint: str, *, token: bool) -> Refusal:
    """Return the message for an error; what: kind and name of what was fetched; token: whether one was sent."""
    chain = list_causes(error)
    names = {base.__name__ for each in chain for base in type(each).__mro__}
    codes = [code for each in chain if (code := find_status(each))]
    for each in chain:
        if isinstance(each, OSError) and each.errno in (*FULL, *CLOSED):
            return explain_disk(each, what)
    if "GatedRepoError" in names:
        remedy = f"ask for access on {endpoint}, and export HF_TOKEN of that account"
        return Refusal("the repository is gated, and has not been opened to this token", what, remedy, USER)
    if 401 in codes or 403 in codes:
        return explain_login(what, endpoint, codes, token=token)
    if any(code >= 500 or code == 429 for code in codes):
        return Refusal("the hub failed", f"{what}: status {codes[0]} from {endpoint}", f"wait, then {AGAIN}", WORLD)
    if 404 in codes or (names & MISSING and LOCAL not in names):
        return Refusal("the hub has no such thing", what, "check the name, the configuration and the revision", USER)
    if names & DATA_SETS.keys():
        fact, remedy = next(row for name, row in DATA_SETS.items() if name in names)
        return Refusal(fact, what, remedy, USER)
    if any(name.endswith(UNREACHABLE) for name in names):
        remedy = f"check the network, the proxy and HF_ENDPOINT, then {AGAIN}"
        return Refusal("the hub cannot be reached, or the connection broke", f"{what} from {endpoint}", remedy, WORLD)
    said = str(error).strip().splitlines()
    value = f"{what}: {type(error).__name__}: {said[0] if said else ''}"
    if isinstance(error, ValueError):
        return Refusal("the arguments do not fit what is there", value, "check the name and the configuration", USER)
    return Refusal("it cannot be fetched", value, AGAIN, WORLD)


def explain_disk(error: OSError, what: str) -> Refusal:
    """Return the message for a cache that is full or cannot be written."""
    value = f"{what}: {error.filename or error.strerror}"
    if error.errno in FULL:
        remedy = f"a larger volume at HF_HOME, then {AGAIN}"
        return Refusal("the disk of the cache is full", value, remedy, WORLD)
    return Refusal("the cache cannot be written", value, "a volume at HF_HOME that this user may write", USER)


def explain_login(what: str, endpoint: str, codes: list[int], *, token: bool) -> Refusal:
    """Return the message for a hub that refuses this token or asks for one, as it does for an unknown name, too."""
    if not token:
        remedy = "check the name; for a private or gated repository export HF_TOKEN"
        return Refusal("the hub has no such public repository", f"{what} at {endpoint}", remedy, USER)
    fact = "the hub does not know this token" if 401 in codes else "this token has no access to the repository"
    remedy = f"export HF_TOKEN of an account with access; {endpoint}/settings/tokens lists its rights"
    return Refusal(fact, what, remedy, USER)


def find_status(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries; None if it has none."""
    status = getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "status", None)
    return status if isinstance(status, int) else None
