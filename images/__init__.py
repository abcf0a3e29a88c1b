"""How an image is made, on the user's machine: request -> plan -> lock -> store -> layers -> image -> engine."""
