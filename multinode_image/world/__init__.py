"""Who started this process, and its place in the world."""
