"""Tracing of jobs. Loaded only if the program has loaded the tracing library; see `ferryman.traces.find_tracing`."""
