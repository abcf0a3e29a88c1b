"""What was measured, and what it is held to."""
