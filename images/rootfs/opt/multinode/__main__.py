"""Start the entrypoint: `python3 -I -S /opt/multinode COMMAND...`."""

import os
import sys

from multinode_image.__main__ import main

sys.exit(main(sys.argv[1:], os.environ, os.path.dirname(os.path.abspath(__file__))))
