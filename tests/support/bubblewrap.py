"""Stand in for bubblewrap, where a test's base brings programs that are this machine's: they run as they are."""

from __future__ import annotations

STAND_IN = b"""\
#!/bin/sh
while [ "$1" != -- ]; do
    [ "$1" != --setenv ] || { export "$2=$3"; shift 2; }
    shift
done
shift
exec "$@"
"""
