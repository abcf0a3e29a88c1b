"""What takes part in the trainings of others: `at_exit` in every Python of one, from its start to its exit.

By its table the others do something once a module has been imported.
"""
