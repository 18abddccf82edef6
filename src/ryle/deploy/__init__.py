"""What a site's own scheduler runs: a checked plan as a Slurm job, systemd units, or Kubernetes manifests.

`processes` says once what runs where, `slurm`, `systemd` and `kubernetes` write that down, each as its scheduler wants
it. None of them carries data: packets go from card to card as ``[network]`` of the observation says.
"""
