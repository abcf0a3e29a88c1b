"""Trainings of the real scripts of the examples: with the entrypoint, and as the Hugging Face guide starts them."""
