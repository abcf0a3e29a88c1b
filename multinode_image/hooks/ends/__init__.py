"""How processes, nodes and jobs end: in the agent of torchrun, and in words."""
