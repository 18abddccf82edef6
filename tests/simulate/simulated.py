"""Observations to simulate."""

import numpy as np

import fresh
from ryle.config import Observation, parse

ONE = '[{ name = "S", ra = "06h40m00s", dec = "-25d00m00s", flux = "100 Jy" }]'


def observation(
    antennas: int = 3,
    spacing: float = 40.0,
    pols: str = '["x", "y"]',
    rate: str = "8 MHz",
    band: str = 'lo = "1.4 GHz"',
    bits: int = 12,
    heap: int = 512,
    complex_samples: bool = False,
    sources: str = "[]",
    simulate: str = "",
    inputs: str = "",
    cables: list[list[str]] | None = None,
    duration: str = "1 s",
) -> Observation:
    """An observation of a scattered array whose largest baseline is about ``antennas · spacing`` metres."""
    place = np.random.default_rng(7).uniform(-0.5, 0.5, (antennas, 3)) * [antennas * spacing, antennas * spacing, 2]
    rows = []
    for i, (e, n, u) in enumerate(place):
        cable = f", cable_delay = {cables[i]}".replace("'", '"') if cables else ""
        rows.append(f'{{ name = "A{i}", enu = ["{e:.3f} m", "{n:.3f} m", "{u:.3f} m"]{cable} }}')
    return parse(f"""
[observation]
sync_time = "2026-03-20T17:00:00Z"
duration = "{duration}"
[array]
location = {{ latitude = "-30.7215 deg", longitude = "21.4284 deg", height = "1051 m" }}
polarizations = {pols}
antennas = [{", ".join(rows)}]
[band]
sample_rate = "{rate}"
{band}
[digitizer]
bits = {bits}
complex = {str(complex_samples).lower()}
heap_samples = {heap}
[fengine]
channels = 64
max_delay = "20 us"
[xengine]
integration = "0.1 s"
[phase_centre]
ra = "06h30m00s"
dec = "-30d00m00s"
{inputs}
[simulate]
{"" if "seed" in simulate else f"seed = {fresh.seed()}"}
{simulate}
sources = {sources}
""")
