"""One run on disk: its names and lock, its events, its checkpoints, the versions it was made with."""
