"""Ryle: a real-time FX correlator for radio telescopes."""

__version__ = "0.1.0"
