"""What a package index has, and which rows of images/versions.toml can be had from it."""
