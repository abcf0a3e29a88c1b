"""Files -> layers, and the layers of an image in order."""
