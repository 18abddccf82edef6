"""What is mis-tuned on a machine for an observation: each finding with why, what mends it, and what it costs.

Facts are read first (`tree` of ``/proc`` and ``/sys``, `machine` for all else), what is wanted follows from an
observation (`needs`), and each of the other modules compares the two for a part of the machine. Nothing is changed
here: what mends a finding is printed, by itself or as a script (`fix`).
"""

from ryle.doctor.examine import examine
from ryle.doctor.finding import Finding, State
from ryle.doctor.machine import Machine
from ryle.doctor.needs import Needs

__all__ = ["Finding", "Machine", "Needs", "State", "examine"]
