"""DistributedDataParallel in a loop of one's own."""

import torch
import torch.distributed as dist
from tiny import BATCH, make_network, make_points, report
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

model, data = make_network(), TensorDataset(*make_points())

dist.init_process_group("gloo")
model = DistributedDataParallel(model)
loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()

report(model.module)
dist.destroy_process_group()
