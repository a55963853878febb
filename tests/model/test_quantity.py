"""Quantities, durations and shares: exact, in Kubernetes spelling, equal by value."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.model import quantity as q


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.1", 100), ("100m", 100), ("1", 1000), ("+2", 2000), ("1.", 1000), (".5", 500), ("0.5m", 1), ("1e3", 10**6),
        ("1E3", 10**6), ("1E-1", 100), ("1n", 1), ("250u", 1), ("2k", 2_000_000), (2, 2000), (0.25, 250), ("0", 0),
    ],
)  # fmt: skip
def test_cpu_is_exact_millicores_rounded_up(text: str | float, milli: int) -> None:
    assert q.parse_cpu(text) == milli


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1.5Gi", 1536 * 2**20), ("2.1Gi", 2254857831), ("1E", 10**18), ("1e3", 1000), ("128974848", 128974848),
        ("129e6", 129_000_000), ("123Mi", 123 * 2**20), ("1500m", 2), ("1M", 10**6), ("1Ki", 1024),
    ],
)  # fmt: skip
def test_memory_is_exact_bytes_rounded_up(text: str, amount: int) -> None:
    assert q.parse_memory(text) == amount


def test_exponent_and_exa_are_told_apart() -> None:
    assert q.parse_quantity("1E") == 10**18
    assert q.parse_quantity("1E1") == 10
    assert q.parse_quantity("2.1Gi") * 1000 == Fraction(2254857830400)


@pytest.mark.parametrize(
    "text", ["", "abc", "1 Gi", "1gi", "0x10", "1KB", "--1", "1e", "NaN", "inf", True, "1e99", "-1"]
)
def test_what_is_no_amount_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        q.parse_cpu(text)


def test_memory_is_no_cpu() -> None:
    """The API server takes 4Gi of CPU as four billion cores; whoever writes it in a policy means memory."""
    assert q.parse_cpu("1Ki") == 1_024_000
    assert q.parse_written_cpu("1500m") == 1500
    with pytest.raises(ValueError, match="amount of memory"):
        q.parse_written_cpu("4Gi")
    with pytest.raises(ValueError, match="not a quantity"):
        q.parse_written_cpu("4Hi")


@given(st.integers(0, 10**12))
def test_cpu_reads_back(milli: int) -> None:
    assert q.parse_cpu(q.format_cpu(milli)) == milli


@given(st.integers(0, 2**62))
def test_memory_reads_back(amount: int) -> None:
    assert q.parse_memory(q.format_memory(amount)) == amount


@given(st.decimals(0, 10**6, places=9), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_rounding_is_up_and_by_less_than_one_unit(number: object, suffix: str) -> None:
    exact = q.parse_quantity(f"{number:f}{suffix}")
    assert 0 <= q.parse_cpu(f"{number:f}{suffix}") - exact * 1000 < 1
    assert 0 <= q.parse_memory(f"{number:f}{suffix}") - exact < 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("1.5s", 1.5),
        ("100us", 1e-4),
        ("0", 0.0),
        (5, 5.0),
        (".5s", 0.5),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert q.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "5 s", "1d", "s", "1m30", "-1s", True])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        q.parse_duration(text)


@given(st.integers(0, 10**10))
def test_durations_read_back(micros: int) -> None:
    assert q.parse_duration(q.format_duration(micros / 1e6)) == pytest.approx(micros / 1e6, abs=1e-9)


@pytest.mark.parametrize(("text", "share"), [("99%", 0.99), ("99.5%", 0.995), (0.95, 0.95), ("1", 1.0), ("0%", 0.0)])
def test_shares(text: str | float, share: float) -> None:
    assert q.parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["101%", "1.5", "-1%", "x", "nan", True])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"%|share"):
        q.parse_share(text)
