"""What differs between the Kubernetes versions the emulator plays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """One minor version. Times in seconds: medians of recorded resizes (1.36), reported ones before."""

    minor: int
    patch: int
    memory_may_shrink: bool  # 1.33 refuses any decrease of a memory limit under NotRequired
    observed_generation: bool  # status.observedGeneration and that of conditions
    refuses_beyond_node: bool  # 403 NodeCapacity at the patch; before, Infeasible from the kubelet
    init_containers_resize: bool  # also the ones that run to completion
    pod_level_status: bool  # status.resources and status.allocatedResources of the pod as a whole
    observe_delay: float  # patch accepted -> kubelet has seen it
    actuate_delay: float  # seen -> applied
    restart_delay: float  # the same with a restart of the container

    @property
    def name(self) -> str:
        return f"1.{self.minor}"

    @property
    def git_version(self) -> str:
        return f"v1.{self.minor}.{self.patch}"


_VERSIONS = {
    "1.33": Version(33, 8, False, False, False, False, False, 0.9, 0.9, 1.2),
    "1.34": Version(34, 5, True, True, False, False, False, 0.9, 0.9, 1.2),
    "1.35": Version(35, 3, True, True, False, False, False, 0.9, 0.9, 1.2),
    "1.36": Version(36, 2, True, True, True, True, True, 0.028, 0.026, 0.19),
}
NAMES = tuple(_VERSIONS)
DEFAULT = "1.36"


def version(name: str) -> Version:
    """Raises ValueError naming the versions there are."""
    try:
        return _VERSIONS[name]
    except KeyError:
        raise ValueError(f"no Kubernetes {name} to play; there are {', '.join(NAMES)}") from None
