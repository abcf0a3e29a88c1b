"""What a finished build prints of itself."""

from __future__ import annotations

from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from images import report
from images.check import provenance, verify
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


@pytest.mark.parametrize("engine", ["docker", "podman", None])
def test_json_says_where_the_image_went(tmp_path: Path, engine: str | None) -> None:
    fields = report.outcome_fields(
        report.Outcome((finished(Store(tmp_path), SMALL),), "a.tar", engine, ("host/a:1",), 1.0)
    )

    assert (fields["archive"], fields["loaded"], fields["pushed"]) == ("a.tar", engine, ["host/a:1"])


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
