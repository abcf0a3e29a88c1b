"""Names of objects, and secrets, which no manifest has."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import Fault
from images.oci.reference import push_target
from manifests.names import read_image, read_object
from multinode_image.errors import Refusal
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
train.py    | settings.PASSWORD = "mine"                                 | yes
train.py    | connect({"db_password": "mine"})                           | yes
train.py    | def upload(path, *, secret="%K"): pass                     | yes
train.py    | def upload(path, secret="%K", /, part=1): pass             | yes
train.py    | api_key: str = "%K"                                        | yes
train.py    | store = "https://me:mine@host/data"                        | yes
train.py    | post("https://hooks.slack.com/services/T0/B0/mine")        | yes
train.py    | token = os.environ["HF_TOKEN"]                             | no
train.py    | url = f"https://{user}:{password}@host"                    | no
train.py    | parser.add_argument("--api-token", dest="%K")              | no
train.py    | settings.get("field", "password_again")                    | no
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


DIGITS = "0123456789abcdef" * 4
TAKEN = f"""
a
multinode:1
multinode:torch2.13.0-transformers5.23.0
a@sha256:{DIGITS}
a:1@sha256:{DIGITS}
a@sha512:{DIGITS * 2}
localhost:5000/a/b__c--d.e:A_1
Registry.Example:443/a
[::1]:5000/a
docker.io/library/a
a/{DIGITS}
"""
# What is typed; a piece of the fact or the value; of what to type instead.
REFUSED = f"""
registry.example/a@sha256:<DIGEST>   | not a digest: 'sha256:<DIGEST>'      | a tag, --image registry.example/a:1
registry.example/a:2@sha256:<DIGEST> | not a digest: 'sha256:<DIGEST>'      | a tag, --image registry.example/a:2
h:5000/a@sha256:                     | not a digest: 'sha256:'              | --image h:5000/a@sha256: with
a@{DIGITS}                           | not a digest                         | --image a@sha256: with
a@sha256:{DIGITS[1:]}                | not a digest                         | or a tag, --image a:1
a@sha256:{DIGITS.upper()}            | not a digest                         | or a tag, --image a:1
a@md5:{DIGITS[:32]}                  | not a digest                         | or a tag, --image a:1
a@sha256:{DIGITS}@sha256:{DIGITS}    | not a digest                         | or a tag, --image a:1
IMAGE                                | not the name of an image             | --image registry.example/multinode:1
<NAME>                               | not the name of an image             | --image registry.example/multinode:1
registry.example/Multinode:1         | not the name of an image             | --image registry.example/multinode:1
https://registry.example/a           | not the name of an image             | --image registry.example/multinode:1
a/                                   | not the name of an image             | --image registry.example/multinode:1
{DIGITS}                             | not the name of an image             | --image registry.example/multinode:1
{"a" * 256}                          | not the name of an image             | --image registry.example/multinode:1
a:<TAG>                              | not a tag: '<TAG>'                   | --image a:1
a:                                   | not a tag: ''                        | --image a:1
a:{"1" * 129}                        | not a tag                            | --image a:1
"""


@pytest.mark.parametrize("text", TAKEN.split())
def test_a_reference_is_taken_as_it_is(text: str) -> None:
    assert read_image(text) == text


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_what_no_node_could_pull_is_refused(row: str) -> None:
    text, fact, remedy = (part.strip() for part in row.split(" | "))

    with pytest.raises(Refusal) as refused:
        read_image(text)

    assert fact in refused.value.finding and remedy in refused.value.remedy


@given(text=st.text("aA1._-:/@<\n[]", max_size=12))
def test_what_can_be_pushed_can_be_named_in_a_manifest(text: str) -> None:
    try:
        push_target(text)
    except Fault:
        return

    assert read_image(text) == text


@pytest.mark.parametrize(("text", "good"), [("a", True), ("a-1.b", True), ("a" * 253, True), ("a" * 254, False),
                                            ("CLAIM", False), ("<name>", False), ("a..b", False), ("-a", False),
                                            ("a\n", False), ("", False)])  # fmt: skip
def test_an_object_has_a_name_of_the_domain_name_system(text: str, good: bool) -> None:
    if good:
        assert read_object(text) == text
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            read_object(text)
