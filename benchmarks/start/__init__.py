"""From the start of a container to its command, and to the first step of a training."""
