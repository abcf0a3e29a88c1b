"""Programs of our own beside torch and the libraries of the hub: `smoke`, doctor's probe, `prefetch`.

The others take part in trainings: `at_exit` in every Python of one, from its start, and by its table those that do
something once a module has been imported.
"""
