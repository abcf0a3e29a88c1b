"""The engine and the machine that a benchmark uses: commands, containers, memory, and what is removed at the end."""
