"""How images come and go: engines on this machine, and registries through skopeo."""
