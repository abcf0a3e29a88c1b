"""What a task needs of an image: its script, the packages that this imports, and data."""
