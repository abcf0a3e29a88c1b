"""What is a secret by its form is one in a file of an image, in a manifest and in what is printed.

In a file it is one only where it is surely none of the many words of a program.
"""

from __future__ import annotations

import pytest

from manifests.secrets import check_script
from multinode_image.errors import Refusal
from multinode_image.printing.secrets import hide_text
from multinode_image.printing.shapes import TABLE, find_kind
from tests.support.growth import assert_linear, repeat

LETTERS = "a1B2c3D4e5" * 10
# Of each kind the shortest example, and a neighbour that is none in a file.
ROWS = {
    "a token of Hugging Face": (f"hf_{LETTERS[:30]}", "hf_trainer_arguments_parser_for_all_of_us"),
    "a token of GitHub": (f"ghr_{LETTERS[:30]}", "ghp_is_what_their_tokens_begin_with_since_2021"),
    "a token of GitHub for some repositories": (f"github_pat_{LETTERS[:22]}", "github_pat_in_the_settings"),
    "a token of GitLab": (f"glpat-{LETTERS[:20]}", "glpat-is-a-prefix"),
    "a key of OpenAI or Anthropic": (f"sk-ant-{LETTERS[:28]}", "class='sk-toggleable__label-arrow-of-the-estimator'"),
    "a token of Slack": (f"xoxb-123456789012-{LETTERS[:7]}", "xoxb-and-xoxp"),
    "a key of AWS": ("ASIAA1B2C3D4E5F6G7H8", "AKIASOMETHING"),
    "a secret key of AWS": (
        f"aws_secret_access_key = {LETTERS[:40]}", "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    ),
    "a key of Azure": (f"AccountName=a;AccountKey={LETTERS[:40]}", 'f"AccountKey={key}"'),
    "a key of Google": (f"AIza{LETTERS[:35]}", "AIzaka"),
    "a token of Google": (f"ya29.{LETTERS[:30]}", "ya29.txt"),
    "a token of npm": (f"npm_{LETTERS[:36]}", "npm_config_registry_of_all_that_we_install"),
    "a token of a registry of npm": (f"//h/:_authToken={LETTERS[:16]}", "//h/:_authToken=${NPM_TOKEN}"),
    "a token of PyPI": (f"pypi-AgEIcHlwaS5vcmc{LETTERS[:38]}", "pypi-AgEnt"),
    "a token in a header": (f"Authorization: Bearer {LETTERS[:24]}", 'f"Authorization: Bearer {os.environ[name]}"'),
    "a JSON web token": (f"eyJhbGciOiJS.eyJzdWIiOiIx.{LETTERS[:16]}", "eyJhbGciOiJS"),
    "a private key": (
        '"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkq',
        "PEM = '-----BEGIN PRIVATE KEY-----'\nhf_aB3aB3a",
    ),
    "a private key of PuTTY": ("PuTTY-User-Key-File-3: s", "'PuTTY-User-Key-File-' in text"),
    "a login in an address": ("index-url = https://bot:hun@h", 'f"https://{user}:{password}@h/"'),
}  # fmt: skip
# What a log does not show, at its shortest; the other kinds are known by the name before them.
HIDDEN = (
    *(f"{begin}{LETTERS[:16]}" for begin in (
        "hf_", *(f"gh{letter}_" for letter in "oprsu"), "github_pat_", "glpat-", "sk-", "ya29.", "pypi-AgE",
    )),
    *(f"xox{letter}-{LETTERS[:10]}" for letter in "abprs"),
    f"AIza{LETTERS[:35]}", f"npm_{LETTERS[:36]}", "AKIAA1B2C3D4E5F6G7H8", "ASIAA1B2C3D4E5F6G7H8",
    "eyJhbGciOiJ", "-----BEGIN PGP PRIVATE KEY BLOCK-----", "PuTTY-User-Key-File-3: ",
)  # fmt: skip
# Second forms, and words of programs.
FORMS = [
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v1\n\nlQOYBF",
    "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n",
    'KEY = ("-----BEGIN EC PRIVATE KEY-----\\n"\n  "MHcCAQEEIIrYSSNQFaA2Hwf1\\n")',
    f'"export A=1\\nhf_{LETTERS[:34]}"',
    f"SecretAccessKey: {LETTERS[:40]}",
    f'AWS_SECRET_ACCESS_KEY="{LETTERS[:40]}',
    f"bearer {LETTERS[:24]}",
    "postgres://app:s3cr3t@db:5432/app",
]
NONE = [
    "https://user:password@h/", "https://USER:PASSWORD@HOST", "http://admin:admin@localhost", "https://$U:$P@h/",
    *(f"https://u:{word}@h/"
      for word in ("passwd", "pass", "Pw", "pword", "pwd", "secret", "token", "KEY", "xxx", "...")),
    "http://[::1]:8080/@a", "://:@", "task-1", "bearer of news",
    "x-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0B",
]  # fmt: skip


def test_each_kind_has_an_example_and_a_neighbour() -> None:
    assert [*ROWS] == [*TABLE]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32-be"])
def test_a_file_with_one_is_known_in_any_encoding(kind: str, encoding: str) -> None:
    example, neighbour = ROWS[kind]

    assert find_kind(f"a = 1\n{example}".encode(encoding)) == kind
    assert find_kind(f"a = 1\n{example[:-1]}".encode(encoding)) is None
    assert find_kind(f"a = 1\n{neighbour}\n".encode(encoding)) is None


@pytest.mark.parametrize("text", FORMS)
def test_other_forms_are_known(text: str) -> None:
    assert find_kind(text.encode()) is not None


@pytest.mark.parametrize("text", NONE)
def test_other_words_are_none_in_a_file(text: str) -> None:
    assert find_kind(text.encode()) is None


@pytest.mark.parametrize("kind", ROWS)
def test_no_log_and_no_manifest_has_it(kind: str) -> None:
    example, _ = ROWS[kind]

    hidden = hide_text(example)
    assert "***" in hidden and find_kind(hidden.encode()) is None
    with pytest.raises(Refusal):
        check_script("a.sh", example)


@pytest.mark.parametrize("text", HIDDEN)
def test_a_log_hides_also_the_shortest(text: str) -> None:
    assert hide_text(text) == "***"
    assert hide_text(text[:-1]) == text[:-1]
    assert hide_text(f"x{text}") == (f"x{text}" if text[0].isalpha() else "x***"), "a word may have such letters in it"


@pytest.mark.parametrize(
    "unit", ["-----BEGIN ", " eyJ-", "://a:", "AccountKey", " sk-", " Bearer ", "-----BEGIN A PRIVATE KEY-----\n\n"]
)
def test_any_file_takes_time_by_its_length(unit: str) -> None:
    assert find_kind(unit.encode() * 99) is None
    assert_linear(lambda text: find_kind(text.encode()), repeat(unit))
