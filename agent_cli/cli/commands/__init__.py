"""The commands beside the agent itself: one file each."""
