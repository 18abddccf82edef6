"""Packets in: what an engine gets, where it lies in a block, and the sources that it comes from."""
