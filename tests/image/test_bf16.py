"""What a rank computes in where bf16 is asked for, by whoever asks, with and without units, alone and as one job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.image.forked import OPTIONS
from tests.support.harness import OFFLINE, Done, env_options, run

SCRIPT = Path(__file__).with_name("bf16_asks.py")
WITH, WITHOUT = "fpu avx2 avx512f avx512_bf16", "fpu avx2 avx512f"
ASKED = ("autocast", "its default", "its older name", "accelerate", "Trainer", "evaluation")
INSISTS = {"MULTINODE_BF16": "emulate"}


def ask(image: str, place: Path, flags: str, *words: str, environ: dict[str, str] | None = None) -> Done:
    """Run the script on a processor with these flags; with words as two ranks of one job, which are forks."""
    (place / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    place.chmod(0o755)
    started = ("python3", "/ranks/forked.py", *words) if words else ("/workspace/asks.py",)
    mounts = [f"--volume={place}/cpuinfo:/proc/cpuinfo:ro", f"--volume={SCRIPT}:/workspace/asks.py:ro"]
    return run(image, *started, options=[*OFFLINE, *mounts, *(OPTIONS if words else ()), *env_options(environ or {})])


@pytest.mark.parametrize(
    ("flags", "words", "environ", "computes"),
    [
        pytest.param(WITHOUT, (), {}, "float32", id="no unit"),
        pytest.param(WITH, (), {}, "bfloat16", id="a unit", marks=pytest.mark.slow),
        pytest.param(WITHOUT, (), INSISTS, "bfloat16", id="no unit, and the user insists"),
        pytest.param(WITH, ("2", "bf16_asks"), {}, "bfloat16", id="ranks with units"),
        pytest.param(WITH, ("2", "bf16_asks", "LAST"), {}, "float32", id="one of two ranks has none"),
    ],
)
def test_all_that_asks_for_bf16_computes_in_it_where_every_rank_has_a_unit(
    image: str, tmp_path: Path, flags: str, words: tuple[str, ...], environ: dict[str, str], computes: str
) -> None:
    done = ask(image, tmp_path, flags, *words, environ=environ)

    assert done.code == 0
    answers = json.loads(done.out.splitlines()[-1])
    assert len(answers) == (2 if words else 1)
    for answer in answers:
        assert {name: answer[name] for name in ASKED} == dict.fromkeys(ASKED, computes)
        assert answer["FSDP"] == ("torch.bfloat16" if computes == "bfloat16" else "None")
        assert (answer["weights"], answer["float16"]) == ("bfloat16", "torch.float16")
    assert done.err.count("trains in float32") == (computes == "float32")
    assert ("the processor of rank 1 has none" in done.err) is ("LAST" in words)
    assert done.err.count("the weights are bfloat16") == (flags == WITHOUT)
