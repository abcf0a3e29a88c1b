"""The command `doctor`: what decides speed and correctness here, and the remedy for what is wrong."""
