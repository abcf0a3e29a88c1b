"""Start the entrypoint: `python3 -I -S /opt/multinode COMMAND...`."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from multinode_image.__main__ import main

sys.exit(main(sys.argv[1:], os.environ, os.path.dirname(sys.path[0])))
