"""Seconds of a step of training: alone and together, tuned and untuned."""
