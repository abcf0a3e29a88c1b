"""Several nodes: keys, ssh, hosts, and ranks that are started, followed and ended."""
