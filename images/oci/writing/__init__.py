"""Layers, layouts and archives, as they are written."""
