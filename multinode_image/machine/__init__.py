"""What this container is given: processors, limits, network, files, a user, and what its image is made of."""
