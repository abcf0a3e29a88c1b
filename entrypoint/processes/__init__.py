"""What becomes of this process: another program, or the parent of one; and changes of modules that it imports."""
