"""What a finished build prints of itself."""

from __future__ import annotations

from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from images import report
from images.check import provenance, verify
from images.oci.image import Image, published_digest, write_config
from images.oci.layer import Layer, Written
from images.platforms import AMD64, ARM64, Platform
from images.store.store import Store
from tests.support.finished_images import SMALL, finished


@pytest.mark.parametrize("archive", ["tmp/[/x].tar", "[a].tar", "[red]a.tar", "a\\[b].tar"])
def test_a_name_is_printed_as_it_is(tmp_path: Path, archive: str) -> None:
    out = StringIO()

    report.show_outcome(
        report.Outcome((finished(Store(tmp_path), SMALL),), archive, None, (), 1.0), Console(file=out, width=100)
    )

    assert f"archive        {archive}\n" in out.getvalue()


LAYERS = (
    Layer("torch", Written("a" * 64, "1" * 64, 149_960_000, 1_000_000_000), reused=True),
    Layer("multinode", Written("b" * 64, "2" * 64, 1_200_000, 1_250_000), reused=False),
)
PART = """\
torch            150.0 MB  reused
multinode          1.2 MB  new
total            151.2 MB  (1001.2 MB unpacked)
id             {0.id}
digest         {0.digest}
"""
ROWS = [{"name": "torch", "digest": f"sha256:{'1' * 64}", "size": 149_960_000, "reused": True},
        {"name": "multinode", "digest": f"sha256:{'2' * 64}", "size": 1_200_000, "reused": False}]  # fmt: skip


def of(platform: Platform) -> Image:
    return Image(("a:1", "h/b:2"), write_config(LAYERS, platform, {}, "2024-01-01T00:00:00Z"), b"{}", LAYERS)


@pytest.mark.parametrize(("archive", "engine", "pushed"), [("a" * 99, "docker", ("h/b:2",)), (None, None, ())])
@pytest.mark.parametrize("platforms", [(AMD64,), (AMD64, ARM64)])
def test_an_outcome_is_printed_and_is_in_json(
    platforms: tuple[Platform, ...], archive: str | None, engine: str | None, pushed: tuple[str, ...]
) -> None:
    images, out, several = tuple(map(of, platforms)), StringIO(), len(platforms) > 1
    outcome = report.Outcome(images, archive, engine, pushed, 12.3456)

    report.show_outcome(outcome, Console(file=out, width=60, force_terminal=True))

    parts = [f"platform       {one.platform}\n" * several + PART.format(one) for one in images]
    ends = {"index": published_digest(images) if several else "", "archive": archive}
    index, kept = (f"{name:<14} {value}\n" if value else "" for name, value in ends.items())
    went = "loaded         into docker\npushed         h/b:2\n" if engine else ""
    tags = "tag            a:1\ntag            h/b:2\n"
    assert out.getvalue() == "".join([*parts, index, tags, kept, went, "seconds        12.3\n"])
    fields = [{"id": one.id, "digest": one.digest, "layers": ROWS, "size": 151_160_000, "unpacked": 1_001_250_000}
              for one in images]  # fmt: skip
    whole = {"platforms": dict(zip(map(str, platforms), fields, strict=True))} if several else fields[0]
    assert report.outcome_fields(outcome) == {
        "image": "a:1", "tags": ["a:1", "h/b:2"], **whole, "digest": published_digest(images), "archive": archive,
        "loaded": engine, "pushed": [*pushed], "seconds": 12.346,
    }  # fmt: skip


def verdict(platform: Platform, difference: verify.Difference | None, store: Store) -> report.Verdict:
    image = finished(store, SMALL, platform=platform)
    inside = verify.Inside(
        "a:1", image.manifest, image.config, (Path("l"),) * 3, "docker", None, ("sha256:i", "sha256:0")
    )
    documents = {"sbom": "sha256:1", "provenance": None} if platform == AMD64 else {}
    attached = provenance.Attached(documents, ["sha256:2 x"] if platform == AMD64 else [])
    return report.Verdict(inside, image.digest, difference, attached)


DIFFERENCE = verify.Difference("layer a", "etc/x", "1", "2")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("difference", [None, DIFFERENCE])
def test_verdicts_are_said_for_each_image(tmp_path: Path, count: int, difference: verify.Difference | None) -> None:
    store, out = Store(tmp_path), StringIO()
    verdicts = [verdict(AMD64, None, store), verdict(ARM64, difference, store)][-count:]

    report.show_verdicts(verdicts, Console(file=out, width=500))
    fields = report.verdict_fields(verdicts)

    lines = [line.split(maxsplit=1) for line in out.getvalue().splitlines()]
    words = [name for name, _ in lines if name == "verified"]
    assert len(words) == count - (difference is not None)
    assert all(
        "(docker, linux/" in text and "): 3 layers, id sha256:" in text for name, text in lines if name == "verified"
    )
    of_amd = [["sbom", "sha256:1, equal to the one of this build"], ["provenance", "not attached"],
              ["not", "examined   sha256:2 x"]]  # fmt: skip
    assert [line for line in lines if line[0] not in ("verified", "index")] == (of_amd if count == 2 else [])
    assert [line for line in lines if line[0] == "index"] == [["index", "sha256:0"]] * (count == 2)
    assert (fields["image"], fields["where"], fields["same"]) == ("a:1", "docker", difference is None)
    last = fields["platforms"]["linux/arm64"] if count == 2 else fields
    assert (last["same"], last["difference"]) == (difference is None, difference and asdict(difference))
    if count == 2:
        assert fields["index"] == "sha256:0" and fields["platforms"]["linux/amd64"]["attached"]["sbom"] == "sha256:1"
        assert fields["platforms"]["linux/amd64"]["not_examined"] == ["sha256:2 x"]
