"""Tracing of jobs. Uses only public names, and is loaded only if the tracing library is installed."""
