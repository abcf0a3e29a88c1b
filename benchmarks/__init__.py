"""What multinode's build and its entrypoint cost, measured with the command line that users have."""
