"""Several nodes by MPI over ssh: the server of a worker, the keys, and `launch`, which starts the ranks."""
