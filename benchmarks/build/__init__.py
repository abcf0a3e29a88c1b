"""The part `build`: our build by itself, and against Dockerfiles."""
