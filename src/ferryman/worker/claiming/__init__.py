"""How a worker gets its jobs: claims, as many as can start or ahead of them."""
