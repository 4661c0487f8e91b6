"""The commands of `mvsink`, one module each."""
