"""The host's side of Ryle's FPGA Ethernet core: its registers, how they are reached, and what its generator sends."""
