"""ignite, by its functions for any number of processes."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine
from tiny import BATCH, WORLD, make_network, make_points, report
from torch.utils.data import TensorDataset


def train(_):
    """Train as a process of any number of them."""
    data = TensorDataset(*make_points())
    model = idist.auto_model(make_network())
    optimizer = idist.auto_optim(torch.optim.AdamW(model.parameters(), lr=0.01))
    loader = idist.auto_dataloader(data, batch_size=BATCH * WORLD, shuffle=False)

    def step(engine, batch):
        inputs, targets = batch
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    Engine(step).run(loader)
    report(getattr(model, "module", model))


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(train)
