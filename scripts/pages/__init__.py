"""The pages as a site, with the parts that are made of our own sources, and the record of images that were built."""
