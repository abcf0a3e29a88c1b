"""What takes part in the trainings of others: at the start and at the exit of every Python of one.

By the table of `at_start` the modules of the packages do something once a library has been imported.
"""
