"""The directory of a run: whose it is, who writes there now, and where it goes on."""
