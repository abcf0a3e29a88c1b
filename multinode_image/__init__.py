"""What runs inside the image: standard library only, Python >= 3.9, at most 100 ms before the command."""
