"""What the world outside sees of jobs: tracing. Built on public names; loaded only where its library is."""
