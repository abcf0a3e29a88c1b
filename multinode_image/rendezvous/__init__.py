"""Where and how the nodes of a job meet: what torchrun is told of that, and the wait for the master."""
