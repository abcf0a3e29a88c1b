"""Programs that another interpreter runs."""
