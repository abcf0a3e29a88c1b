"""Files on the machine that builds: kept by their sha256, whole or not there."""
