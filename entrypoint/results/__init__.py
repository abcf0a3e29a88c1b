"""The directory for results: whose run it is, its last complete checkpoint, and what all ranks agree on."""
