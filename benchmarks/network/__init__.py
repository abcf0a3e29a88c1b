"""Two containers with less of a network between them: what gradients cost, and what sending less of them brings."""
