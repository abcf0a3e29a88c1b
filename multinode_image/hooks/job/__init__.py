"""What a rank knows of its job: how many were meant, where it is, what it tells others and what started it."""
