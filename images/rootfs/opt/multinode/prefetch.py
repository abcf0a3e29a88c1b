"""Start the job `prefetch`: `python3 /opt/multinode/prefetch.py PLAN`, where the plan is JSON."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from multinode_image.programs.prefetch import main

sys.exit(main(sys.argv[1:], os.environ, os.path.dirname(sys.path[0])))
