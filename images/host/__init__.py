"""The machine that builds: errors, the store, processes, downloads, pip's configuration."""
