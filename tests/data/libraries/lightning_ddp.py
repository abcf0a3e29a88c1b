"""Lightning, told of its nodes and ranks."""

import os

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_module import Module
from tiny import BATCH, OUTPUT, make_points, report
from torch.utils.data import DataLoader, TensorDataset

model, loader = Module(), DataLoader(TensorDataset(*make_points()), BATCH)

trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    default_root_dir=OUTPUT,
    callbacks=[ModelCheckpoint(OUTPUT, save_last=True)],
    max_epochs=2,
)
trainer.fit(model, loader, ckpt_path="last")

report(model)
