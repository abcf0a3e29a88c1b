"""Wheels from outside: opened, and refused where they are not in order; one by one, or a directory of them."""
