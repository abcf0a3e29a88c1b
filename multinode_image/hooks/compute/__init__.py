"""What computes: the type of numbers, the threads, and torch's compiler."""
