"""Modules -> bytecode, by the base's own Python: where it runs, and what it is given."""
