"""Debian packages: where they come from, and which are chosen."""
