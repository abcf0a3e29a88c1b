"""Options of programs that take them with dashes and with underscores, as torchrun and accelerate do."""

from __future__ import annotations


def read_program_options(words: list[str], flags: tuple[str, ...]) -> dict[str, str]:
    """Return the options before a script, the last of several, with dashes; flags: those without a value."""
    found, left = {}, list(words)
    while left and left[0].startswith("-") and left[0] != "--":
        name, equals, value = left.pop(0).partition("=")
        name = name.replace("_", "-")
        # The value may follow a letter in the same word, as in -r3.
        attached = len(name) > 2 and not name.startswith("--")
        bare = name in flags or attached or (not equals and not left)
        found[name] = "1" if bare else (value if equals else left.pop(0))
    return found
