"""What people see of a running correlator: figures, pictures, alarms, made from what its engines leave to look at."""
