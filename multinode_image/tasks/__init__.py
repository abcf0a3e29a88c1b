"""What was typed -> the command that trains: tasks, flags of any release, arguments."""
