"""Prove rewrites by running them: the driver judges, child processes with the user's torch run both sides."""
