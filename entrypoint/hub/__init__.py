"""What comes from the Hugging Face hub: metrics that are mounted, and what a task needs before it runs offline."""
