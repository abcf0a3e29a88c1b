"""Start the entrypoint: `python3 -I -S /opt/multinode COMMAND...`."""

import os
import sys
from pathlib import Path

from entrypoint.__main__ import main

sys.exit(main(sys.argv[1:], os.environ, Path(__file__).parent))
