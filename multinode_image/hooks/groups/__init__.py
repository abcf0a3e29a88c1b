"""How ranks meet and wait for each other: stores, process groups, and their timeouts."""
