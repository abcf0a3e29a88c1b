"""The environment of a rank of two, which is this process: of mpirun, and as the agent of a torchrun has started it."""

from __future__ import annotations

import os

from multinode_image.settings import SIZE

PID = str(os.getpid())
PLACE = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", "MULTINODE_TRAINING": PID}
RANK = {**PLACE, "MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}
