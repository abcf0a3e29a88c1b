"""Wheels from outside: opened, and refused where they are not in order."""
