"""What a Trainer of transformers does besides: checkpoints, its log, its state and its progress."""
