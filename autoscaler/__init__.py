"""Inference Autoscaler: keeps the latency objective of ML-inference services on Kubernetes.

One sentence carries the program: observe → decide → act, once per tick.
"""

__version__ = "0.1.0"
