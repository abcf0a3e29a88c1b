"""Start doctor's probe: `python3 /opt/multinode/probe.py BACKEND`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH keeps Python from doing so

from entrypoint.jobs.probe import main

main(sys.argv[1])
