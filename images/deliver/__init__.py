"""How images come and go: engines on this machine, registries through skopeo, and what Docker knows of both."""
