"""Every setting of the process, once: its default, its unit and what it is for.

A leaf ``prometheus.token_file`` is the flag ``--prometheus-token-file``, the variable
``AUTOSCALER_PROMETHEUS_TOKEN_FILE`` and the key ``prometheus: {tokenFile: …}`` of the file named by ``--config``; flags
win over variables, variables over the file. Secrets are never settings: they come from the files that settings name.
The tree is frozen; a reload builds a new one.
"""

from autoscaler.settings.layers import SettingsError, config_file, load
from autoscaler.settings.names import PREFIX, Leaf, add_arguments, flags_given, leaves
from autoscaler.settings.tree import LogSettings, Settings

__all__ = [
    "PREFIX",
    "Leaf",
    "LogSettings",
    "Settings",
    "SettingsError",
    "add_arguments",
    "config_file",
    "flags_given",
    "leaves",
    "load",
]
