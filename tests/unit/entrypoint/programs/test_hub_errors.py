"""Errors of the hub's libraries, in three parts."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from entrypoint.programs.hub_errors import explain


class GatedRepoError(Exception):
    """Named as that of huggingface_hub."""


class HfUriError(ValueError):
    """Named as that of huggingface_hub."""


class DatasetNotFoundError(FileNotFoundError):
    """Named as that of datasets."""


class DataFilesNotFoundError(FileNotFoundError):
    """As datasets has it, for a data set without files that it reads."""


class EmptyDatasetError(FileNotFoundError):
    """Named as that of datasets."""


class EntryNotFoundError(Exception):
    """Named as that of huggingface_hub."""


class LocalEntryNotFoundError(EntryNotFoundError, FileNotFoundError, ValueError):
    """Named as that of huggingface_hub before 1.0: what is not in the cache, and could not be asked for."""


class ConnectTimeout(Exception):
    """Named as that of requests and httpx."""


def answered(status: int, kind: type[Exception] = Exception) -> Exception:
    """Return an error that carries an answer."""
    error = kind("said")
    error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def hidden(error: Exception, context: BaseException) -> Exception:
    """Return an error as `raise ... from None` leaves it."""
    error.__context__, error.__suppress_context__ = context, True
    return error


@pytest.mark.parametrize(
    ("error", "token", "fact", "remedy", "code"),
    [
        (answered(403, GatedRepoError), True, "is gated", "ask for access", 2),
        (caused(DatasetNotFoundError("x"), answered(401, GatedRepoError)), False, "is gated", "HF_TOKEN", 2),
        (answered(401), False, "no such public repository", "export HF_TOKEN", 2),
        (answered(401), True, "does not know this token", "settings/tokens", 2),
        (answered(403), True, "has no access", "an account with access", 2),
        (answered(404), False, "no such thing", "check the name", 2),
        (DatasetNotFoundError("x"), False, "no such thing", "check the name", 2),
        (DataFilesNotFoundError("No (supported) data files"), False, "no files that", "another --dataset_name", 2),
        (EmptyDatasetError("doesn't contain any data files"), False, "has no files", "another --dataset_name", 2),
        (EntryNotFoundError("x"), False, "no such thing", "check the name", 2),
        (LocalEntryNotFoundError("x"), False, "cannot be reached", "HF_ENDPOINT", 1),
        (caused(ConnectionError("x"), LocalEntryNotFoundError("y")), False, "cannot be reached", "HF_ENDPOINT", 1),
        (caused(LocalEntryNotFoundError("x"), answered(404)), False, "no such thing", "check the name", 2),
        (caused(LocalEntryNotFoundError("x"), answered(503)), False, "the hub failed", "wait", 1),
        (HfUriError("Repository id must be"), False, "without its owner", "OWNER/NAME in its place", 2),
        (answered(503), False, "the hub failed", "wait", 1),
        (answered(429), False, "the hub failed", "wait", 1),
        (caused(RuntimeError("x"), ConnectTimeout("y")), False, "cannot be reached", "HF_ENDPOINT", 1),
        (ConnectionResetError("x"), False, "cannot be reached", "run it again", 1),
        (caused(RuntimeError("x"), OSError(errno.ENOSPC, "No space left", "/hf/a")), False, "disk", "larger volume", 1),
        (PermissionError(errno.EACCES, "Permission denied", "/hf/a"), False, "cannot be written", "may write", 2),
        (hidden(KeyError("x"), OSError(errno.ENOSPC, "No space left")), False, "cannot be fetched", "run it again", 1),
        (KeyError("odd\nmore"), False, "cannot be fetched", "run it again", 1),
        (ValueError("no config x\nmore"), False, "do not fit", "the configuration", 2),
    ],
)  # fmt: skip
def test_an_error_of_the_hub_has_a_remedy(error: Exception, token: bool, fact: str, remedy: str, code: int) -> None:
    refusal = explain(error, "model ours/bert", "https://hub", token=token)
    assert fact in refusal.fact and remedy in refusal.remedy and refusal.code == code
    assert refusal.value.startswith("model ours/bert") and "\n" not in refusal.value


def test_a_circle_of_causes_ends() -> None:
    first, second = KeyError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert explain(first, "x", "https://hub", token=False).code == 1
