"""Debian packages, read and unpacked by our own code: which are chosen, and the root file system that they make."""
