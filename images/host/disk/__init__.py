"""Disks: files that nobody ever reads half of, what is said of a disk that refuses, and the home directory."""
