"""What leaves by the network between Ryle's engines."""
