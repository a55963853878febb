"""`autoscaler simulate`: the flags, and what they make. What needs NumPy is imported when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

EXTRA = "inference-autoscaler[report]"
DEFAULTS: Mapping[str, Any] = {
    "load": [],
    "generate": [],
    "since": "7d",
    "step": "1m",
    "arrivals": "poisson",
    "controller": "ours,hpa:70",
    "slo": None,
    "within": None,
    "wait": "fixed:0ms",
    "pods": 1,
    "pod_cpu": 1.0,
    "scrape": "5s",
    "actuation": "1.8s",
    "cold_start": "35s",
    "seeds": 1,
    "warm_up": "5m",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every flag is absent by default, so that a scenario file can give what the command line doesn't."""
    load = parser.add_argument_group("load")
    load.add_argument("--load", action="append", metavar="FILE", help="a load trace; repeat for several workloads")
    load.add_argument("--load-format", choices=("rps", "csv", "requests", "faro"), help="default: told from the file")
    load.add_argument(
        "--generate",
        action="append",
        metavar="SHAPE",
        help="a load of ours: steady, diurnal, steps, bursts, flash or idle, as in bursts:rate=20,high=80,every=10m",
    )
    load.add_argument("--from-prometheus", metavar="URL", help="your own last days, by --query and --since")
    load.add_argument("--query", metavar="PROMQL", help="requests per second; a workload for each series")
    load.add_argument("--since", metavar="TIME", help="how far back (7d)")
    load.add_argument("--step", metavar="TIME", help="resolution of the query (1m)")
    load.add_argument("--mean-erlang", type=float, metavar="X", help="scale the rates to X cores of work on average")
    load.add_argument("--length", metavar="TIME", help="only the load's first part, as 1h")
    load.add_argument(
        "--arrivals", choices=("poisson", "uniform", "exact", "faro"), help="how requests come within the rates"
    )
    serving = parser.add_argument_group("the servers")
    serving.add_argument("--service", metavar="DIST", help="CPU a request needs: lognormal:150ms,0.4, fixed:180ms, …")
    serving.add_argument("--wait", metavar="DIST", help="time off the CPU after it, as fixed:20ms")
    serving.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="requests a pod serves at once (what the load needs)",
    )
    serving.add_argument("--parallelism", type=float, metavar="N", help="cores one request can use (1)")
    serving.add_argument(
        "--batch", metavar="N,…", help="batches of up to N: 8,gamma=5ms,delta=1ms,epsilon=10ms,eta=2ms"
    )
    serving.add_argument("--queue-limit", type=int, metavar="N", help="more waiting requests are dropped (none)")
    serving.add_argument("--balance", choices=("shared", "round-robin", "random", "least-outstanding"))
    cluster = parser.add_argument_group("the cluster")
    cluster.add_argument("--cpus", type=float, metavar="N", help="one node of N cores for all pods")
    cluster.add_argument("--budget", type=float, metavar="N", help="cores all workloads may have together")
    cluster.add_argument("--room", metavar="SHARE", help="a node for each pod, with this share of its size free")
    cluster.add_argument("--pods", type=int, metavar="N", help="pods of a workload that is sized vertically (1)")
    cluster.add_argument("--pod-cpu", type=float, metavar="N", help="cores of a pod that is only counted (1)")
    cluster.add_argument("--max-replicas", type=int, metavar="N", help="pods ours may scale to (as at the start)")
    cluster.add_argument("--scrape", metavar="TIME", help="between scrapes of application metrics (5s)")
    cluster.add_argument("--actuation", metavar="TIME", help="from a decision to the new quota (1.8s; 1.36: 0.1s)")
    cluster.add_argument("--cold-start", metavar="TIME", help="of a new pod: 35s, or lognormal:35s,0.3")
    what = parser.add_argument_group("what is compared")
    what.add_argument(
        "--controller",
        metavar="NAME,…",
        help="ours, ours-vertical, ours-horizontal, static, hpa:70, hpa-inflight:2, vpa, hpa+vpa:70, fairshare, aiad, "
        "oneshot, kpa, ideal",
    )
    what.add_argument("--slo", metavar="TIME", help="latency a request must not exceed (720ms, or the policy's)")
    what.add_argument("--within", metavar="SHARE", help="share of requests within it (99.5%%, or the policy's)")
    what.add_argument("--policy", metavar="FILE", help="an InferenceAutoscaler for ours")
    what.add_argument("--seeds", type=int, metavar="N", help="runs of each controller (1)")
    what.add_argument("--warm-up", metavar="TIME", help="not scored, except by minute (5m)")
    what.add_argument("--scenario", metavar="FILE", help="YAML with these flags as keys; flags given here go first")
    out = parser.add_argument_group("output")
    out.add_argument("--json", metavar="FILE", help="one object a controller and seed; - for stdout")
    out.add_argument("--report", metavar="FILE", help="one self-contained HTML file")


def run(args: argparse.Namespace) -> int:
    """0 done, 2 what was asked for makes no sense (one line says what)."""
    try:
        from autoscaler.simulate.invocation import carry_out
    except ImportError as error:
        return _complain(f"needs {error.name or error}: install {EXTRA}")
    try:
        return carry_out(args, DEFAULTS)
    except ImportError as error:
        return _complain(f"needs {error.name or error}: install {EXTRA}")
    except (ValueError, OSError) as error:
        return _complain(" ".join(str(error).split()))


def _complain(text: str) -> int:
    print(f"autoscaler simulate: {text}", file=sys.stderr)
    return 2
