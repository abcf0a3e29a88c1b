"""A plan -> every file by sha256, and where each one comes from."""
