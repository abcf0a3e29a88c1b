"""What must hold of values in a lock that others wrote, as types of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True)
class Grammar:
    """What a text in a lock must match; `longest` is in characters."""

    pattern: str
    longest: int | None = None

    def __get_pydantic_core_schema__(self, _: object, handler: object) -> CoreSchema:
        """Tell pydantic, which is imported where a lock is read: a build that makes its own lock does without."""
        from pydantic_core import core_schema

        return core_schema.str_schema(pattern=self.pattern, max_length=self.longest)


@dataclass(frozen=True)
class TrueOrFalse:
    """What must be true or false itself: pydantic takes 1 and "yes" for true."""

    def __get_pydantic_core_schema__(self, _: object, handler: object) -> CoreSchema:
        """Tell pydantic, as Grammar does."""
        from pydantic_core import core_schema

        return core_schema.bool_schema(strict=True)
