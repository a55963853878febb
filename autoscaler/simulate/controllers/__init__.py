"""The controllers that people use today, each from its published algorithm, and ours."""
