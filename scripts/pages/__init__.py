"""Parts of pages that programs write, and what these programs read of our own sources."""
