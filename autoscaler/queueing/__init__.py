"""Pods that serve requests under a CPU quota: the one model behind the emulated pods and the simulated ones."""
