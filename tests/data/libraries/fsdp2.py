"""FSDP2: each rank has a part of each weight."""

import torch
import torch.distributed as dist
from tiny import BATCH, make_network, make_points, report
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

model, data = make_network(), TensorDataset(*make_points())

dist.init_process_group("gloo")
fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()

whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
model = make_network()
model.load_state_dict(whole)
report(model)
dist.destroy_process_group()
