"""Builds: ours, and Dockerfiles from the same wheels."""
