"""What is a secret, by the name of a value and by its shape, and a text without it.

So it is for `--explain`, for messages, for `run.json` and for manifests. A number that is hidden by mistake costs
little, a secret that is shown costs much, so names are judged strictly.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from multinode_image.printing.shapes import MAYBE

HIDDEN, QUOTES = "***", ("'", '"')
# Anywhere in a name: `client_secret_v2`, `PGPASSWORD`. What is typed in is no path.
TYPED = ("password", "passwd", "passphrase")
ANYWHERE = (*TYPED, "secret", "credential", "authorization", "cookie", "bearer", "signature")
# A word of a name, or the end of its last one, perhaps as a plural: `HF_TOKEN_2`, `AccountKey`, `apikey`.
WORD = ("token", "key", "auth", "pwd")
LAST = ("pass", "pat", "sig")
# A name that ends so is not that of the secret itself: `HF_TOKEN_PATH`, `secret_name`, `key_lines`.
ABOUT = ("file", "path", "dir", "name", "id", "ids", "type", "types", "column", "columns", "lines")
# Names that look like those of secrets, and are not where a path from the root follows: `PWD` is the shell's, and the
# password of an ODBC connection.
PLAIN = ("pwd", "oldpwd", "multinode_ssh_keys", "nss_wrapper_passwd")
# `curl -u USER:PASSWORD -x USER:PASSWORD@PROXY`
LOGIN_FLAGS = ("-u", "-U", "--user", "--proxy-user", "-x", "--proxy")

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What a token or a key is not: a number, a flag, the path of a file with a suffix (no alphabet of keys has a dot).
TELLS_NOTHING = re.compile(r"""['"]?(\d{1,9}|[Tt]rue|[Ff]alse|[Nn]one|null|)['"]?""")
PATH = re.compile(r"""['"]?~?/[\w/-]*\.[\w./-]+['"]?""")
LOGIN = re.compile(r"""(?<=://)[^\s/?#"\\]*@""")
# A proxy is named with or without `http://`, and so many letters before its login at most; each word is read once.
PROXY, NEAR = re.compile(r"""(?i)proxy["']?(?:\s*[=:]\s*|\s+)["']?"""), 200
AT = re.compile(r"""[^\s/@"']+@?""")
# Whoever has the address of a webhook may send to it: `https://hooks.slack.com/services/T0/B0/...`
ADDRESS, HOOK = re.compile(r"""://[^\s"']+"""), "hook"
USER = re.compile(r"""((?<!\S)(?:-[uU]\s*|--(?:proxy-)?user[=\s]\s*)["']?)([^\s:"'-][^\s:"']*:)[^\s"']+""")
HEADERS = ("authorization", "cookie")
NAME = re.compile(r"-{0,2}[\w.-]+")
# Each name is looked at once, from its beginning: a word of a million letters would take minutes otherwise.
PAIR = re.compile(r"""(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*)(["']?\s*[=:]\s*["']?|(?:\s|\\\n)+)""")
# Values: a word of a shell; one field of a query; JSON without quotes, where an object hides all behind it.
WORD_OF_SHELL = r"""(?:"[^"]*"|'[^']*'|[^\s;|'"]+)+"""
FIELD = r"""[^\s&#'"]+"""
BARE = r"""(?s:\{.*|\[[^\]]*\]?|[^\s,}\]]+)"""
WORDS_OF_SHELL = rf"(?!-){WORD_OF_SHELL}(?:\s+(?!-){WORD_OF_SHELL})*"


class Pair(NamedTuple):
    """A name, what separates it from its value, and the character before the name."""

    name: str
    between: str
    before: str

    @property
    def is_header(self) -> bool:
        """Return whether it is a header that has a secret, whatever separates them: `Authorization=Bearer S`."""
        return self.name.lower().endswith(HEADERS)

    @property
    def assigns(self) -> bool:
        """Return whether the name gets its value by `=`, as in a shell or a query."""
        return "=" in self.between and not self.is_header

    @property
    def separates(self) -> bool:
        """Return whether more than blanks is between them."""
        return "=" in self.between or ":" in self.between

    @property
    def is_field(self) -> bool:
        """Return whether `NAME: VALUE` is no sentence: `token:S`, `X-Api-Key: S`."""
        return not self.between[-1].isspace() or "-" in self.name.strip("-") or self.is_header

    @property
    def is_flag(self) -> bool:
        """Return whether it is a flag whose value is the next word."""
        return not self.separates and self.name.startswith("-")

    @property
    def rest(self) -> str:
        """Return the pattern of all that follows in the line, or in the quotes around both; `://` begins no value."""
        return f"(?!//)[^\n{self.before if self.before in QUOTES else ''}]+"


class Syntax(NamedTuple):
    """How names get their values somewhere: an example with the value S, what it is known by, and the value's pattern.

    in_prose: whether it is one in a message, too.
    """

    example: str
    holds: Callable[[Pair], bool]
    value: Callable[[Pair], str]
    in_prose: bool = True


# The first one that holds counts.
SYNTAXES = (
    Syntax(
        '{"token": "S"} --api-key="S S"',
        lambda pair: pair.between[-1] in QUOTES and pair.between.strip() != pair.between[-1],
        lambda pair: f"[^{pair.between[-1]}\n]+",
    ),
    Syntax('{"token": S, "a": 1}', lambda pair: pair.between[0] in QUOTES, lambda pair: BARE),
    Syntax("https://h?token=S&a=1", lambda pair: pair.assigns and pair.before in ("?", "&"), lambda pair: FIELD),
    Syntax("TOKEN=S a", lambda pair: pair.assigns, lambda pair: WORD_OF_SHELL),
    Syntax("-H 'X-Api-Key: S'", lambda pair: pair.separates and pair.is_field, lambda pair: pair.rest),
    Syntax("-H 'Token: S'", lambda pair: pair.separates, lambda pair: pair.rest, in_prose=False),
    Syntax(
        "y --tokens S S --a 1",
        lambda pair: pair.is_flag and is_plural(pair.name),
        lambda pair: WORDS_OF_SHELL,
        in_prose=False,
    ),
    Syntax("y --token S a", lambda pair: pair.is_flag, lambda pair: f"(?!-){WORD_OF_SHELL}", in_prose=False),
)


def is_secret(name: str, value: str | None = None) -> bool:
    """Return whether the value of a flag, a variable, a header or a field belongs in no log.

    value: makes a difference where it cannot be one, as in `--max_tokens 5`; None where it is not known.
    """
    name = name.strip("-'\" ")
    words = [word.lower() for word in WORDS.findall(name)]
    is_plain = name.lower() in PLAIN and value is not None and value.strip("'\"").startswith("/")
    if not words or is_plain or words[-1] in ABOUT:
        return False
    is_typed, nothing = any(part in name.lower() for part in TYPED), value == ""
    if nothing or (value is not None and PATH.fullmatch(value) and not is_typed):
        return False
    if any(part in name.lower() for part in ANYWHERE):
        return True
    singular = {word.removesuffix("s") for word in words}
    named = not singular.isdisjoint(WORD) or words[-1] in LAST or words[-1].removesuffix("s").endswith(WORD)
    return named and (value is None or TELLS_NOTHING.fullmatch(value) is None)


def is_plural(flag: str) -> bool:
    """Return whether a flag has several values: `--tokens A B`, and not `--token A B` or `--pass A B`."""
    return flag.endswith("s") and not flag.endswith("ss")


def hide_value(name: str, value: str) -> str:
    """Return the value that a name has, *** where it is a secret, and without the secrets in it."""
    if is_secret(name, value):
        return HIDDEN
    return hide_login(value) if name.lower().endswith("proxy") and "@" in value else hide_text(value)


def hide(words: list[str]) -> list[str]:
    """Return a command line with *** for every secret; a word with blanks in it may be a line of shell."""
    hidden: list[str] = []
    flag = ""
    for word in words:
        name, equals, value = word.partition("=")
        if flag and not word.startswith("--"):
            hidden.append(hide_login(word) if flag in LOGIN_FLAGS else hide_value(flag, word))
            flag = flag if is_plural(flag) else ""
        elif equals and NAME.fullmatch(name) and is_secret(name, value):
            hidden.append(f"{name}={HIDDEN}")
            flag = ""
        else:
            hidden.append(hide_line(word))
            flag = word if word in LOGIN_FLAGS or (word.startswith("-") and not equals and is_secret(word)) else ""
    return hidden


def hide_login(text: str) -> str:
    """Return USER:PASSWORD, or USER:PASSWORD@PROXY, without the password; an address has none but in front of its @."""
    login, at, host = hide_text(text).rpartition("@")
    name, colon, password = (login if at else host).partition(":")
    hidden = HIDDEN if colon and not password.startswith("//") else password
    return f"{name}{colon}{hidden}{at}{host if at else ''}"


def hide_line(text: str) -> str:
    """Return a line of shell, JSON, a header, an address or a list of settings without the secrets in it."""
    return hide_pairs(USER.sub(rf"\1\2{HIDDEN}", hide_shapes(text)), is_prose=False)


def hide_text(text: str) -> str:
    """Return a message without secrets; in its sentences a name before a colon or a blank is that of no value."""
    return hide_pairs(hide_shapes(text), is_prose=True)


def hide_shapes(text: str) -> str:
    """Return a text without what is a secret whatever its name is."""
    return AT.sub(hide_proxy, ADDRESS.sub(hide_hook, LOGIN.sub(f"{HIDDEN}@", MAYBE.sub(HIDDEN, text))))


def hide_hook(address: re.Match[str]) -> str:
    """Return an address without what is behind a webhook's name in it."""
    text = address[0]
    end = text.find("/", text.lower().find(HOOK)) if HOOK in text.lower() else -1
    return text if end < 0 or end + 1 == len(text) else f"{text[: end + 1]}{HIDDEN}"


def hide_proxy(word: re.Match[str]) -> str:
    """Return a word that ends in @ without USER:PASSWORD, if a proxy is named in it or just before."""
    if ":" not in word[0] or not word[0].endswith("@"):
        return word[0]
    text, start, end = word.string, word.start(), word.end()
    named = (match.end() for match in PROXY.finditer(text, max(0, start - NEAR), end))
    login = next((place for place in named if place >= start), end)
    return f"{text[start:login]}{HIDDEN}@" if ":" in text[login:end] else word[0]


def hide_pairs(text: str, *, is_prose: bool) -> str:
    """Return a text without the values of names of secrets; is_prose: take `NAME=VALUE` and headers alone for such."""
    done, start = [], 0
    while match := PAIR.search(text, start):
        done.append(text[start : match.end()])
        start = match.end()
        value = find_value(match, is_prose=is_prose) if is_secret(match[1]) else None
        if value and is_secret(match[1], value[0]):
            done.append(HIDDEN)
            start = value.end()
    return "".join([*done, text[start:]])


def find_value(match: re.Match[str], *, is_prose: bool) -> re.Match[str] | None:
    """Return the value that begins behind a name and what separates both; None if there is none."""
    text = match.string
    pair = Pair(match[1], match[2], text[match.start() - 1 : match.start()])
    for syntax in SYNTAXES:
        if syntax.holds(pair) and (syntax.in_prose or not is_prose):
            return re.compile(syntax.value(pair)).match(text, match.end())
    return None
