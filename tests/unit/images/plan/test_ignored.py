"""Lines of a .dockerignore: what Docker leaves out (moby/patternmatcher; Docker, "Build context")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.plan import ignored


@pytest.mark.parametrize(
    ("text", "out", "stays"),
    [
        ("", [".git", ".git/config", "a/.git", "a/__pycache__/b.pyc", ".dockerignore"], ["git", "a.git", ".gitignore"]),
        ("!.git\n", ["a/.git"], [".git", ".git/config"]),
        ("data", ["data", "data/a/b"], ["data2", "a/data"]),
        ("/data/\n", ["data", "data/a"], ["a/data"]),
        ("*/temp*", ["a/temp", "a/temp.txt", "a/temporary/b"], ["temp", "a/b/temp"]),
        ("temp?", ["tempa", "temp1/b"], ["temp", "tempab", "a/tempa"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.pyc", "a/py"]),
        ("**/data", ["data", "a/data", "a/data/b"], ["a/mydata", "data2"]),
        ("**.csv", ["a.csv", "a/b.csv"], ["a.csv.gz"]),
        ("data/**", ["data/a", "data/a/b"], ["data"]),
        ("a/**/c", ["a/c", "a/b/c", "a/b/b/c"], ["ac", "a/bc"]),
        ("**", ["a", "a/b"], []),
        ("*\n!train.py\n!src", ["a.py", "data/train.py"], ["train.py", "src/a/b.py"]),
        ("*.md\n!README*.md\nREADME-secret.md", ["a.md", "README-secret.md"], ["README.md"]),
        ("*.md\nREADME-secret.md\n!README*.md", ["a.md"], ["README-secret.md"]),
        ("# a comment\n\n  a  \n", ["a"], ["# a comment"]),
        (" # a", ["# a"], ["a"]),
        ("[a-c]x", ["ax", "cx/y"], ["dx", "[a-c]x"]),
        ("[^a]", ["b"], ["a"]),
        (r"\*a", ["*a"], ["ba"]),
        ("./a/../b", ["b"], ["a"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
        ("\ufeffa", ["a"], []),
        ("! a\nb", ["b"], ["a"]),
    ],
)
def test_a_path_stays_out_as_docker_has_it(text: str, out: list[str], stays: list[str]) -> None:
    patterns = ignored.parse_lines(text)

    assert [path for path in (*out, *stays) if ignored.leaves_out(patterns, path)] == out


@pytest.mark.parametrize("line", ["!", "[z-a]"])
def test_a_line_that_is_no_pattern_is_named(line: str) -> None:
    with pytest.raises(ValueError) as caught:
        ignored.parse_lines(f"a\n{line}\n")

    assert str(caught.value).startswith(line)


@given(st.text("a*?/[]!\\^-.#\n ", max_size=20), st.text("ab/*.", min_size=1, max_size=10))
def test_any_file_is_read_or_refused(text: str, path: str) -> None:
    try:
        patterns = ignored.parse_lines(text)
    except ValueError:
        return
    assert ignored.leaves_out(patterns, path) in (True, False)
