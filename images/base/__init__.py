"""Base images: Debian's packages, pulled images, what is in them and what they lack."""
