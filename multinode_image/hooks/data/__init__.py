"""What ranks train on: the same data, in one order, and no batch is lost."""
