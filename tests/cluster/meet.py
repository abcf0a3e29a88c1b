"""What a rank runs to meet the others: rank 0 prints `met: ` and the place of every rank, in order, as JSON.

    met: [{"host": "node0", "local": "0/1", "job": "7", "port": "29500", "threads": "2"}, ...]

It takes a part of the seconds that `smoke` takes, because transformers is not imported, and it says who was met.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from typing import Any

import torch.distributed as dist


def main() -> None:
    """Meet, print, and end together; alone where no launcher has given a rank."""
    environ = os.environ
    local = f"{environ.get('LOCAL_RANK', 0)}/{environ.get('LOCAL_WORLD_SIZE', 1)}"
    names = {"job": "SLURM_JOB_ID", "port": "MASTER_PORT", "threads": "OMP_NUM_THREADS"}
    mine = {"host": os.uname().nodename, "local": local, **{key: environ.get(name) for key, name in names.items()}}
    met: list[Any] = [mine]
    if "RANK" in environ:
        dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))  # a test may let it wait for another job
        met = [None] * dist.get_world_size()
        dist.all_gather_object(met, mine)
    asked = environ.get("MULTINODE_WORLD_SIZE", "")
    least, is_range, _ = asked.partition(":")
    if asked and (len(met) < int(least) or (len(met) > int(least) and not is_range)):
        sys.exit(f"met {len(met)}, asked for {asked}")
    if environ.get("RANK", "0") == "0":
        os.write(1, f"met: {json.dumps(met)}\n".encode())  # at once: others write there, too
    if dist.is_initialized():
        dist.barrier()
        time.sleep(0.5)  # as in smoke: what the others still read has to arrive
    os._exit(0)


if __name__ == "__main__":
    main()
