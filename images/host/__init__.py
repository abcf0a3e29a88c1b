"""The machine that builds: errors, processes, work side by side, and how much is read of what comes from outside."""
