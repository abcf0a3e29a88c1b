"""What a Trainer of transformers does besides: checkpoints, its log, its history and its progress."""
