"""What becomes of this process: another program, or the parent of one."""
