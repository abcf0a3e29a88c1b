"""Stand in for dpkg-deb: print the control file of a package of apt_get.py, which is all that it has.

dpkg-deb --field FILE
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.stdout.write(Path(sys.argv[2]).read_text())
