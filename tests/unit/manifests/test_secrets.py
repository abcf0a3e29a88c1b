"""Secrets in files that go into a manifest, and what looks like one to whoever reads only names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.harness import ROOT
from tests.support.manifests import write

KEY = "k3y0fTheTest0nly"
TOKEN = f"hf_{'aB' * 10}"
# A file, a line of it with %T and %K for a token and a key, and whether it has a secret.
LINES = """
train.py    | login(token="%T")                                          | yes
train.py    | # login("%T")                                              | yes
train.py    | wandb.login(key="%K")                                      | yes
train.py    | os.environ["WANDB_API_KEY"] = "%K"                         | yes
train.py    | os.environ.setdefault("API_KEY", "%K")                     | yes
train.py    | parser.add_argument("--api-token", default="%K")           | yes
train.py    | settings.password = "mine"                                 | yes
train.py    | connect({"db_password": "mine"})                           | yes
train.py    | def upload(path, *, secret="%K"): pass                     | yes
train.py    | api_key: str = "%K"                                        | yes
train.py    | store = "https://me:mine@host/data"                        | yes
train.py    | post("https://hooks.slack.com/services/T0/B0/mine")        | yes
train.py    | token = os.environ["HF_TOKEN"]                             | no
train.py    | url = f"https://{user}:{password}@host"                    | no
train.py    | tokenizer.pad_token = "<pad>"                              | no
train.py    | sort_key, bad = "length", "\\d"                            | no
train.py    | help = "as HTTP bearer authorization for remote files"     | no
train.py    | password = getpass.getpass("password:")                    | no
train.py    | this is no Python: token=                                  | no
run.sh      | export HF_TOKEN=%T                                         | yes
run.sh      | curl -H "X-Api-Key: %K" https://host                       | yes
run.sh      | export HF_TOKEN=$HF_TOKEN KEY="$(cat /etc/k3y/of1/file)"   | no
run.sh      | git clone https://$USER:${PASSWORD}@host/repository        | no
config.json | {"hub_token": "%K"}                                        | yes
config.json | {"eos_token": "</s>", "max_tokens": 512}                   | no
some.yaml   | password: mine                                             | yes
some.yaml   | data_key: text                                             | no
"""


def rows(table: str) -> list[list[str]]:
    return [[part.strip() for part in row.split(" | ")] for row in table.strip().splitlines()]


@pytest.mark.parametrize(("name", "line", "has"), rows(LINES))
def test_a_file_with_a_secret_is_refused_by_its_line(tmp_path: Path, name: str, line: str, has: str) -> None:
    (tmp_path / "main.py").touch()
    text = line.replace("%T", TOKEN).replace("%K", KEY)
    (tmp_path / name).write_text(f"\n{text}\n")

    printed = write("trainjob", "--script", str(tmp_path / "main.py"), "--script", str(tmp_path / name))

    assert (printed.code == 2) is (has == "yes"), printed.err
    assert has == "no" or f"{name}, line 2\n" in printed.err


def test_a_patch_with_a_secret_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    row = "spec: {template: {spec: {containers: [{name: node, env: [{name: HF_TOKEN, value: '%s'}]}]}}}"

    file.write_text(row % TOKEN)
    assert "--env-secret HF_TOKEN=" in write("job", "--patch", str(file)).err

    file.write_text(row % "$(MINE)")
    assert write("job", "--patch", str(file)).code == 0


@pytest.mark.parametrize("path", sorted((ROOT / "tests/data/libraries").glob("*.py")), ids=lambda path: path.name)
def test_a_script_without_one_is_taken(path: Path) -> None:
    assert write("trainjob", "--script", str(path)).code == 0
