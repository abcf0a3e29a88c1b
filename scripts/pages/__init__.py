"""What pages have of our own sources, the record of images that were built, and the pages as a site."""
