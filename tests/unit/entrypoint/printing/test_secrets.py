"""Secrets that no log gets."""

from __future__ import annotations

import time

import pytest

from entrypoint.printing.secrets import hide


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("cd /x && python3 x.py --hub_token hf_x --bf16", "cd /x && python3 x.py --hub_token *** --bf16"),
        ("export A=b HF_TOKEN=hf_x; x", "export A=b HF_TOKEN=***; x"),
        ("HF_TOKEN='a b' x", "HF_TOKEN=***"),  # the whole of a word that is an assignment
        ('a --api-key="k k" --seed 1', "a --api-key=***"),
        ('cd a --api-key="k k" --seed 1', "cd a --api-key=***"),
        ("curl -H 'Authorization: Bearer abc' https://h", "curl -H 'Authorization: ***' https://h"),
        ("curl -H 'X-Api-Key: abc' https://u:p@h/x y@z", "curl -H 'X-Api-Key: ***' https://***@h/x y@z"),
        ("--hub [1, {'hub_token': 'hf_x'}]", "--hub [1, {'hub_token': '***'}]"),
        ('--json {"api_key" : "k", "seed": 1}', '--json {"api_key" : "***", "seed": 1}'),
        ("x --tokenizer_name t --max_new_tokens 3 --seed 1", "x --tokenizer_name t --max_new_tokens 3 --seed 1"),
        ("echo the key is here, --token --bf16", "echo the key is here, --token --bf16"),
    ],
)
def test_secrets_in_a_line_of_shell_are_hidden(line: str, shown: str) -> None:
    assert hide(["bash", "-c", line]) == ["bash", "-c", shown]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--hub_token=x", "--hub_token=***"),
        ("--api_key=x", "--api_key=***"),
        ("--client-secret=x", "--client-secret=***"),
        ("DB_PASSWORD=x", "DB_PASSWORD=***"),
        ("DB_PASSWD=x", "DB_PASSWD=***"),
        ("Authorization:x", "Authorization: ***"),
        ("Proxy-Authorization:x", "Proxy-Authorization: ***"),
        ("Cookie:x", "Cookie: ***"),
        ("X-Api-Key:abc", "X-Api-Key: ***"),
        ("X-Auth-Token:abc", "X-Auth-Token: ***"),
        ("https://h/p?x=1&token=abc", "https://h/p?x=1&token=***"),
        ('{"revision":"main","token":"hf_x"}', '{"revision":"main","token":"***"}'),
        ('--kwargs={"revision":"main","token":"hf_x"}', '--kwargs={"revision":"main","token":"***"}'),
        ("{revision:main,token:hf_x}", "{revision:main,token:***"),
        ('Cookie:x={"a":"b"}', "Cookie: ***"),
        ("X-A:1,Authorization:Bearer_x", "X-A:1,Authorization:***"),
        ('{"use_reentrant":false,"max_tokens":3}', '{"use_reentrant":false,"max_tokens":3}'),
        ("--hosts=a:2,b:2", "--hosts=a:2,b:2"),
        ("https://h/x?Signature=x&a=b", "https://h/x?Signature=***&a=b"),
        ("https://h/x?X-Amz-Credential=x&a=b", "https://h/x?X-Amz-Credential=***&a=b"),
        ("https://h/x?sv=1&sig=x", "https://h/x?sv=1&sig=***"),
    ],
)
def test_every_secret_in_a_word_is_hidden(word: str, shown: str) -> None:
    assert hide([word]) == [shown]


def test_a_long_word_of_json_takes_no_time() -> None:
    word = '{"x":"' + "a-" * 20_000 + '"}'
    began = time.process_time()
    assert hide([word]) == [word]
    assert time.process_time() - began < 2
