"""Lines of a .dockerignore: what Docker leaves out (moby/patternmatcher; Docker, "Build context")."""

from __future__ import annotations

import posixpath
import time

import docker.utils.build
import pytest
from hypothesis import assume, given
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


@given(st.text("ab*?/.", min_size=1, max_size=8), st.text("ab/.", min_size=1, max_size=10))
def test_patterns_mean_what_docker_s_own_client_takes_them_for(line: str, path: str) -> None:
    """Compare one pattern with the client's matcher, which knows neither a plain end behind ** nor all directories."""
    path, clean = posixpath.normpath(path).lstrip("/"), posixpath.normpath(line).lstrip("/")
    assume(".." not in clean and ".." not in path and not clean.startswith("**") and clean != ".")
    above = [path[:at] for at in range(1, len(path)) if path[at] == "/"]
    theirs = docker.utils.build.Pattern(clean)

    assert ignored.leaves_out(ignored.parse_lines(clean), path) == any(map(theirs.match, [*above, path]))


@given(st.text("ab*?/[]^", min_size=1, max_size=8), st.text("ab", min_size=1, max_size=2), st.text("ab/", max_size=5))
def test_a_directory_with_something_that_is_taken_in_is_opened(line: str, directory: str, below: str) -> None:
    path = posixpath.normpath(f"{directory}/x{below}")
    try:
        patterns = ignored.parse_lines(f"*\n!{line.replace('!', '')}")
    except ValueError:
        return
    if not ignored.leaves_out(patterns, path):
        assert ignored.may_take_in(patterns, directory)


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        ("*\n!src", ["src", "src/a"], ["DB", "sr", "src2"]),
        ("*\n!a/*/c.py", ["a", "a/b"], ["b", "a/b/d", "a/b/c.py2"]),
        ("*\n!**/c.py", ["a", "a/b"], []),
        ("data\n!data/keep*/x", ["data", "data/keep1", "b"], ["data/lost"]),
        ("*\n!a[bc]/d?", ["ab", "ac"], ["ad", "a"]),
        ("!data/x\ndata", ["src"], ["data"]),
        ("*\n!src/**", ["src", "src/a/b"], ["source"]),
        ("data", ["src"], ["data", "data/a", ".git"]),
    ],
)
def test_only_a_directory_that_may_hold_something_is_opened(text: str, opened: list[str], closed: list[str]) -> None:
    patterns = ignored.parse_lines(text)

    assert [path for path in (*opened, *closed) if ignored.may_take_in(patterns, path)] == opened


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a" * 25 + "z", "a" * 120),
        ("**/a" * 15 + "**/z", "a/" * 40 + "b"),
        ("*?" * 40 + "z", "a" * 4000),
        ("**/*a" * 40 + "/z", "a" * 4000),
    ],
)
def test_a_hostile_pattern_takes_no_longer_than_its_letters(line: str, path: str) -> None:
    patterns, start = ignored.parse_lines(f"*\n!{line}"), time.process_time()

    assert ignored.leaves_out(patterns, path) and ignored.may_take_in(patterns, path) == ("**" in line)
    assert time.process_time() - start < 5
