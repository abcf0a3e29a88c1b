"""What pam-auth-update(8) writes on an empty system, of the profiles that are on by default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from images.debian import control
from images.debian.tree import Tree

PROFILES, TEMPLATES, STATE = "usr/share/pam-configs", "usr/share/pam/common-", "var/lib/pam"
KINDS = ("auth", "account", "password", "session", "session-noninteractive")
MODULE = re.compile(r"((?:\[[^]]+\]|\w+)\s+\S+)\s*(.*)")
NOTHING = "[default=1]\t\t\tpam_permit.so"

Profile = Mapping[str, str]


def write(tree: Tree) -> None:
    """Write the common files of /etc/pam.d, and what the program remembers of them.

    Raises LookupError or ValueError for profiles that it could not read either.
    """
    found = {path.rpartition("/")[2]: control.fields(tree.text(path)) for path in tree.below(PROFILES)}
    names = sorted(found, key=lambda name: (int(found[name].get("Priority", 0)), name), reverse=True)
    tree.file(f"{STATE}/seen", "".join(f"{name}\n" for name in names))
    for kind in KINDS:
        text, saved = tree.text(TEMPLATES + kind), ""
        on = {name: found[name] for name in names if _is_on(found[name], kind)}
        for block in ("Primary", "Additional"):
            lines = _lines(on, kind.partition("-")[0], block)
            head, mark, rest = _split(text, block)
            text = head + (_written(lines) if mark else "") + rest
            saved += _saved(lines)
        tree.file(f"etc/pam.d/common-{kind}", text)
        tree.file(f"{STATE}/{kind}", saved)


def _split(text: str, block: str) -> tuple[str, bool, str]:
    """Return what is before the place of a block in a template, whether there is one, and what is after it."""
    found = re.search(rf"(?m)^\$\w+_{block.lower()}\n", text)
    return (text[: found.start()], True, text[found.end() :]) if found else (text, False, "")


def _is_on(profile: Profile, kind: str) -> bool:
    only_interactive = profile.get("Session-Interactive-Only") == "yes" and kind.endswith("-noninteractive")
    return profile.get("Default") == "yes" and not only_interactive


class _Lines(list[tuple[str, str]]):
    """Lines of one block as (profile, line), with the word that each begins with, and where `end` leads to."""

    def __init__(self, word: str, block: str) -> None:
        super().__init__()
        self.word, self.after = word, 0 if block == "Primary" else 1


def _lines(on: Mapping[str, Profile], word: str, block: str) -> _Lines:
    """Return the lines of a block: of the first profile those that it has for that place."""
    found, key = _Lines(word, block), word.capitalize()
    for name, profile in on.items():
        if profile.get(f"{key}-Type") == block:
            said = profile[key] if found else profile.get(f"{key}-Initial", profile[key])
            found += [(name, line.strip()) for line in said.splitlines() if line.strip()]
    return found


def _written(lines: _Lines) -> str:
    if not lines and not lines.after:
        return f"{lines.word}\t{NOTHING}\n"
    out = ""
    for at, (_, line) in enumerate(lines):
        module = MODULE.fullmatch(line)
        if module is None:
            raise ValueError(f"{line[:80]!r} is no line of PAM")
        jump = str(len(lines) - lines.after - at)
        out += f"{lines.word}\t{module[1].replace('end', jump)} {' '.join(module[2].split())}\n"
    return out


def _saved(lines: _Lines) -> str:
    if not lines and not lines.after:
        return f"Module: null\n{NOTHING}\n"
    names: Sequence[str] = [name for name, _ in lines]
    heads = (f"Module: {name}\n" if name not in names[:at] else "" for at, name in enumerate(names))
    return "".join(f"{head}{line}\n" for head, (_, line) in zip(heads, lines, strict=True))
