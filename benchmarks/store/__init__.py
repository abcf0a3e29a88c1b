"""What many releases cost in one store."""
