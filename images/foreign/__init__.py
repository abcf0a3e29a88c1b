"""What others made: files are read within bounds, so that none takes memory or time without end."""
