"""A real model on real text that anybody can train: `python -m scripts.example DIRECTORY`."""
