"""Looking into finished images: what is in them, whether it works, whether it is what the lock says."""
