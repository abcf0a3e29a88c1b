"""Which of the user's files are secrets, by name or by content: whoever may pull an image reads its files."""

from __future__ import annotations

import re

from multinode_image.printing.shapes import LONGEST, find_kind

# Names, whatever the case of their letters, of files and directories that hold secrets whatever is in them.
NAMES = (
    r"\.env(?:\..+)?", r"[^/]+\.env", r"\.envrc",
    r"[._]netrc", r"\.pypirc", r"\.git-credentials", r"\.pgpass", r"\.my\.cnf", r"\.dockercfg",
    r"\.docker/config\.json", r"\.htpasswd", r"\.s3cfg", r"\.boto", r"\.databrickscfg",
    r"\.vault-token", r"kaggle\.json", r"rclone\.conf",
    r"\.ssh", r"\.aws", r"\.azure", r"\.kube", r"\.gnupg", r"\.config/gcloud", r"application_default_credentials\.json",
    r"[^/]+\.(?:p12|pfx|jks|kdbx|ppk)",
)  # fmt: skip
PRIVATE = re.compile(rf"(?:.*/)?(?:{'|'.join(NAMES)})(?:/.*)?", re.IGNORECASE)
SAMPLE = re.compile(
    r"(?:.*/)?(?:[^/]*\.env\.(?:example|sample|template|dist)|(?:example|sample|template)\.env)", re.IGNORECASE
)
WIDEST = 4  # bytes of a letter in UTF-32


def has_private_name(path: str) -> bool:
    """Return whether a file is one of secrets by its path."""
    return PRIVATE.fullmatch(path) is not None and SAMPLE.fullmatch(path) is None


class SecretSearch:
    """A search for a secret in a file that is read in parts."""

    def __init__(self) -> None:
        self._end = b""

    def find(self, part: bytes) -> str | None:
        """Return the kind of a secret in the next part, or in it and the one before; None without one."""
        kind = find_kind(self._end + part)
        self._end = (self._end + part)[-LONGEST * WIDEST :]
        return kind
