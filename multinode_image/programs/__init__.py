"""Programs of our own beside torch and the libraries of the hub: `smoke`, doctor's probe, `prefetch`."""
