"""Where and when: time, antenna positions, apparent directions, delay models and phase tracking."""
