"""Programs of our own beside torch and the libraries of the hub: `smoke`, doctor's probe, `prefetch`.

Two more take part in every training: one at its end, one where ranks exchange gradients.
"""
