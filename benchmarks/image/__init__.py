"""Sizes of images."""
