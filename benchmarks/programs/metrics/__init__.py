"""Metrics in place of those that `evaluate` would download; they run in the image."""
