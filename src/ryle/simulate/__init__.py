"""A simulated array: sky and receivers to voltages to digitizer samples."""

from ryle.simulate.digitizer import DigitizedChunk, Digitizer
from ryle.simulate.sky import Mount, Sky, coherency
from ryle.simulate.voltages import Truth, VoltageSimulator

__all__ = ["DigitizedChunk", "Digitizer", "Mount", "Sky", "Truth", "VoltageSimulator", "coherency"]
