"""What is compared: builds of multinode, and Dockerfiles from the same wheels."""
