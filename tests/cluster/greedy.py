"""Take all there is of something: memory, in the last rank, shared memory, processes or files; or count signals."""

import itertools
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

SIZE = 16 << 20


def take_memory() -> None:
    """Take memory for ever in the last rank; the others wait for it in every step."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        dist.init_process_group("gloo")
    held = []
    while True:
        if rank == size - 1:
            held.append(torch.ones(SIZE >> 2))
        if size > 1:
            dist.all_reduce(torch.ones(1))


def collate(rows: list[tuple[torch.Tensor]]) -> torch.Tensor:
    """Return a batch that is not in shared memory yet, as the collators of the Trainer."""
    return torch.stack([row for (row,) in rows])


def take_shared_memory() -> None:
    """Let a worker of a DataLoader hand over more than fits, with a collator of its own or that of torch."""
    collator = collate if sys.argv[1] == "collated" else None
    for _ in DataLoader(TensorDataset(torch.ones(8, SIZE >> 2)), batch_size=8, num_workers=1, collate_fn=collator):
        pass


def take_processes() -> None:
    """Start more workers of a DataLoader than there may be processes."""
    for _ in DataLoader(TensorDataset(torch.ones(8, 8)), num_workers=100):
        pass


def take_files() -> None:
    """Open more files than a process may."""
    held = [os.dup(0) for _ in range(200)]
    print(len(held))


def count_signals() -> None:
    """Say how many signals have come, until one of them ends this."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 2])  # the kernel keeps each of them
    print("ready", flush=True)
    for count in itertools.count(1):
        signal.sigwait([signal.SIGRTMIN + 2])
        print(f"signal {count}", flush=True)


if __name__ == "__main__":
    shared = {"shm": take_shared_memory, "collated": take_shared_memory}
    shared |= {"processes": take_processes, "files": take_files}
    {"memory": take_memory, "signals": count_signals, **shared}[sys.argv[1]]()
