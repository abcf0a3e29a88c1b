"""How servers are reached: pip's configuration, certificates, and downloads."""
