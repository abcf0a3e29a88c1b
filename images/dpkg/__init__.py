"""What dpkg makes of packages, without running anything of them: the tree, what install scripts do, the records."""
