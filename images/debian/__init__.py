"""Debian's archive: which packages there are, which of them are chosen, and what is in one."""
