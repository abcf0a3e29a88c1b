"""What each rank gets: threads, cores, libraries, a network interface, as variables with their reasons."""
