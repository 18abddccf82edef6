"""Draw docs/_static/vdif_autospectra.png: autospectra of a real VDIF recording, correlated by `ryle correlate`.

Run it in the project's environment; the `test` extra brings the recording.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import baseband.data
import h5py
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as output:
        command = ["correlate", HERE / "vdif_sample.toml", "--input", baseband.data.SAMPLE_VDIF, "--output", output]
        subprocess.run([sys.executable, "-m", "ryle", *map(str, command)], check=True)
        with h5py.File(Path(output) / "vdif_sample.uvh5") as file:
            first, second = file["Header/ant_1_array"][()], file["Header/ant_2_array"][()]
            full = file["Header/time_array"][()] == file["Header/time_array"][0]
            frequency = (file["Header/freq_array"][()].ravel() - 1e9) / 1e6
            autos = file["Data/visdata"][()][(first == second) & full][..., :2].real  # antenna, channel, xx and yy
    figure, axes = plt.subplots(2, 4, figsize=(10, 4), sharex=True, sharey=True, layout="constrained")
    for thread, axis in enumerate(axes.flat):
        power = 10 * np.log10(autos[thread // 2, :, thread % 2] / np.median(autos))
        axis.step(frequency, power, where="mid", color="#1f4e79", linewidth=1)
        axis.set_title(f"thread {thread}", fontsize=9)
        axis.grid(alpha=0.3)
    figure.supxlabel("baseband frequency (MHz)", fontsize=10)
    figure.supylabel("power (dB)", fontsize=10)
    figure.savefig(HERE.parent / "_static" / "vdif_autospectra.png", dpi=110)


if __name__ == "__main__":
    main()
