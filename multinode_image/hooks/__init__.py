"""What takes part in the trainings of others: `at_start` and `at_exit` in every Python of one.

By its table the others do something once a module has been imported.
"""
