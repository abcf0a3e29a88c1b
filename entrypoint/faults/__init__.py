"""What breaks while a training runs: it is noticed in bounded time, and said in words."""
