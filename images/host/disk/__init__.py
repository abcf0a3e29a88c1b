"""Disks: files that nobody ever reads half of, and what is said of a disk that refuses."""
