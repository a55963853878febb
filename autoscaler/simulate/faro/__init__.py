"""Faro's experiment: its path, its workers and its policies, to calibrate the simulator by (beomyeol/faro @b595c4ad).

FairShare, AIAD and Oneshot act on the mean latency of the requests that ended in the last 30 s, dropped ones included;
above 720 ms counts up, else down, three in a row (up) or sixty (down) act. HPA at a CPU target is here for comparison,
on an ideal 30 s average.
"""
