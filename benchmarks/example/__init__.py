"""The part `example`."""
