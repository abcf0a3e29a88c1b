"""Secrets in what is printed: in command lines, lines of shell, headers and addresses."""

from __future__ import annotations

# The ends of the names of flags and variables whose values must not be in a log.
SECRET = ("token", "key", "secret", "password", "passwd")
HEADERS = ("authorization", "proxy-authorization", "cookie")
# Letters of JSON and of lists: what follows them in a word may be a name with its value.
SEVERAL = frozenset('{",')


def hide(words: list[str]) -> list[str]:
    """Return a command line with *** for every secret: `--hub_token X`, `--api-key=X`, `HF_TOKEN=X`.

    In an address that is the user with the password, and what a query is signed with; in a header the value of one like
    `Authorization`. A word with blanks may be a line of shell, with words of its own.
    """
    hidden: list[str] = []
    follows = False
    for word in words:
        name, equals, value = word.partition("=")
        secret = is_secret(name)
        if follows and not word.startswith("--"):
            hidden.append("***")
            follows = False
        elif secret and value:
            hidden.append(f"{name}=***")
        else:
            hidden.append(hide_line(word) if any(letter.isspace() for letter in word) else hide_parts(word))
            follows = secret and not equals and word.startswith("-")
    return hidden


def is_secret(name: str) -> bool:
    """Return whether the value of a flag, a variable or a header belongs in no log."""
    return name.lower().endswith(SECRET)


def hide_parts(word: str) -> str:
    """Return a word without the secrets of a header, of JSON or a list of headers, and of the addresses in it."""
    name, colon, value = word.partition(":")
    header = name.rpartition("=")[2].strip("'\" ")
    if colon and value.strip() and not value.startswith("//") and (is_secret(header) or header.lower() in HEADERS):
        return f"{name}: ***"
    return hide_addresses(word) if SEVERAL.isdisjoint(word) else hide_line(word)


def hide_addresses(text: str) -> str:
    """Return a text without the secrets of the addresses in it."""
    first, *rest = text.split("://")
    return "://".join([first, *map(hide_address, rest)])


def hide_line(text: str) -> str:
    """Return a line of shell, or JSON, without the secrets in it; rather too little is shown than too much."""
    import re  # json has it loaded already

    ends, text = "|".join(SECRET), hide_addresses(text)
    value = r"""(?:"[^"]*"|'[^']*'|[^\s;&|'"]+)+"""
    # A name is tried from its beginning alone: a long word would take minutes otherwise.
    text = re.sub(rf"""(?i)(?<![\w-])([\w-]*(?:{ends})=){value}""", r"\1***", text)
    text = re.sub(rf"""(?i)((?<!\S)--?[\w-]*(?:{ends})\s+)(?!-){value}""", r"\1***", text)
    return re.sub(
        rf"""(?i)(?<![\w-])([\w-]*(?:{"|".join(HEADERS)}|{ends})["']?\s*:\s*["']?)(?!//)[^'"\n]+""", r"\1***", text
    )


def hide_users(text: str) -> str:
    """Return a text without the user and the password of any address in it."""
    first, *rest = text.split("://")
    return "://".join([first, *map(hide_user, rest)])


def hide_user(text: str) -> str:
    """Return what follows the :// of an address without user and password."""
    end = next((place for place, letter in enumerate(text) if letter in '/?#"\\' or letter.isspace()), len(text))
    _, at, host = text[:end].rpartition("@")
    return f"{'***' if at else ''}{at}{host}{text[end:]}"


def hide_address(text: str) -> str:
    """Return what follows the :// of an address without user, password, and the secrets of its query."""
    place, question, query = text.partition("?")
    host, slash, path = place.partition("/")
    _, at, host = host.rpartition("@")
    fields = [field.partition("=") for field in query.split("&")] if question else []
    shown = "&".join(f"{name}=***" if is_secret(name) or is_signed(name) else f"{name}{equals}{value}"
                     for name, equals, value in fields)  # fmt: skip
    return f"{'***@' if at else ''}{host}{slash}{path}{question}{shown}"


def is_signed(name: str) -> bool:
    """Return whether a field of a query is what a signed address is allowed by."""
    return name.lower().endswith(("signature", "credential", "sig"))
