"""Programs of our own beside torch and the libraries of the hub: `smoke`, doctor's probe, `prefetch`.

Two more take part in trainings: `follow` in one of an example, from its start, and `at_exit` in every one, at its end.
"""
