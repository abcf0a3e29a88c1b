"""The directory for results: whose run it is, its last complete checkpoint, and what all ranks agree on.

plan: which run a command asks for. record: what a run leaves there, and which one is refused. shared: our directory on
a volume of others, and its lock, by which a second job is noticed. checkpoints: the last one that can be gone on from.
agree: all ranks, over the network. resume: a start, and the start of a rank, in that order.
"""
