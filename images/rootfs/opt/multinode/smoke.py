"""Start the job `smoke`, in every rank: `python3 /opt/multinode/smoke.py [FLAG...]`."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from multinode_image.programs.smoke import main

sys.exit(main(sys.argv[1:], os.environ, os.path.dirname(sys.path[0])))
