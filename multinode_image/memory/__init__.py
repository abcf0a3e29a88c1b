"""What a training takes of memory, estimated before it starts: only `--explain` asks."""
