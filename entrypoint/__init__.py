"""What runs inside the image: standard library only, Python >= 3.9, at most 35 ms before the command."""
