"""A simulated array: sky and receivers to voltages to digitizer samples."""

from .digitizer import DigitizedChunk, Digitizer
from .sky import Mount, Sky, coherency
from .voltages import Truth, VoltageSimulator

__all__ = ["DigitizedChunk", "Digitizer", "Mount", "Sky", "Truth", "VoltageSimulator", "coherency"]
