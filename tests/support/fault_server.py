"""A registry that fails as told: one image over HTTP, with answers that are put before the right ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from tests.support.listing_registry import Listing
from tests.support.stand_in import Image
from tests.support.web import Reply, Request, listening

__all__ = ["Faulty", "Reply", "answering", "serving"]


class Faulty(Listing):
    """What is served: `instead` has answers by the end of the path, each given once; `asked` is what came."""

    def __init__(self, image: Image, instead: dict[str, list[Reply]] | None = None, login: str | None = None) -> None:
        manifests = {image.digest: image.blobs[image.digest]}
        super().__init__(login, blobs=image.blobs, manifests=manifests, tags={"1": image.digest})
        self.instead = instead or {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        self.asked.append((request.target, request.headers))
        for end, replies in self.instead.items():
            if request.path.endswith(end) and replies:
                return replies.pop(0)
        return super().answer(request)


@contextmanager
def serving(faulty: Faulty) -> Iterator[Faulty]:
    """Serve on a free port, which `host` then names."""
    with listening(faulty.answer) as faulty.host:
        yield faulty


def answering(reply: Reply) -> AbstractContextManager[str]:
    """Give one answer to every request, whatever it asks; yield host:port."""
    return listening(lambda _: reply)
