"""The directory for results: whose run it is, and its last complete checkpoint.

plan: which run a task asks for. record: what a run leaves there, and which one is refused. shared: our directory on a
volume of others, and its lock, by which a second job is noticed. checkpoints: the last one that can be gone on from.
Ranks go on in hooks/trainer.
"""
