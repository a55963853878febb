"""The same decisions in virtual time, on a real load, beside the controllers people use today."""
