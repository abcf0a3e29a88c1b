"""What is printed, by whatever command: without secrets, and also where a stream cannot be written."""
