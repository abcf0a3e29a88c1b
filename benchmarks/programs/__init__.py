"""What runs in an image, by its Python."""
