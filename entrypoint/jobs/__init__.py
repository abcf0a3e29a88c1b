"""Programs of our own that run in a training process, beside torch: `smoke` and doctor's probe."""
