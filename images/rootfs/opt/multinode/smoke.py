"""Start the job `smoke`: `python3 /opt/multinode/smoke.py [FLAG...]`, by every rank."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH keeps Python from doing so

from entrypoint.jobs.smoke import main

main(sys.argv[1:], sys.path[0])
