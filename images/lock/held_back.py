"""Which of the user's packages are not the newest that they may be, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Sequence

from images.context import Context
from images.lock import uv, uv_errors, uv_reasons
from images.lock.newest import day_of, find_newest
from images.plan.plan import Plan


def list_held_back(plan: Plan, chosen: uv.Chosen, context: Context, requirements: Sequence[str]) -> list[str]:
    """Say of each package of the user's that leaves a choice, where it is not the newest as of the day, why not.

    uv is asked for the newest one, and says what does not go with it. Raises a Fault for an index that does not answer.
    """
    versions, notes = {str(package.name): package.version for package in chosen.pylock.packages}, []
    for name, newest in sorted(find_newest(plan, chosen.sources).items()):
        if (taken := versions.get(name)) and taken < newest:
            answer = uv.ask(plan, chosen.sources, context, (*requirements, f"{name}=={newest}"))
            why = (
                "others of your packages would be older beside it" if answer.pylock else uv_reasons.shorten(answer.said)
            )
            build = "" if answer.pylock else uv_errors.how_to_build(answer.said, context)
            day = day_of(name, plan)
            notes.append(
                f"{name} {taken}, not {newest}, the newest of {day}: {why}{f'; build one: {build}' if build else ''}"
            )
    return notes
