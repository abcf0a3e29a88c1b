"""Lightning, which knows nothing of other nodes unless it is told."""

import lightning
from lightning_module import Module
from tiny import BATCH, make_points, report
from torch.utils.data import DataLoader, TensorDataset

model, loader = Module(), DataLoader(TensorDataset(*make_points()), BATCH)
lightning.Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False).fit(model, loader)
report(model)
