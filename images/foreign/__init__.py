"""Files that others wrote, read within bounds: what they say of themselves takes no memory or time without end."""
