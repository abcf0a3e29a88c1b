"""A loop of one's own with accelerate."""

import torch
from accelerate import Accelerator
from tiny import BATCH, make_network, make_points, report
from torch.utils.data import DataLoader, TensorDataset

model, data = make_network(), TensorDataset(*make_points())

accelerator = Accelerator()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, BATCH))
for inputs, targets in loader:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(inputs), targets))
    optimizer.step()

report(accelerator.unwrap_model(model))
