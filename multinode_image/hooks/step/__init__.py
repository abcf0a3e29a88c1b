"""What belongs to a step: gradients that ranks exchange, and losses that are weighed."""
