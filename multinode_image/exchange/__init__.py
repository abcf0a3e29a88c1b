"""How the ranks of a DistributedDataParallel exchange gradients: the choice, the hook, and what is sent."""
