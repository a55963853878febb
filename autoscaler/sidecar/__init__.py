"""The program as a container beside the model server: each sidecar sizes its own pod, one of them leads.

The leader sees all siblings, changes the replicas and publishes between which sizes each pod may move; the others never
look beyond their own pod. Nodes are not visible from here: room is unknown, and the kubelet's answer is the truth.
"""
