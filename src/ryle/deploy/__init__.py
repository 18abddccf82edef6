"""What a site's own scheduler runs: a placement as a Slurm job, systemd units or Kubernetes manifests.

``site`` reads the placement and checks it as a whole, against the observation and the hardware; each of the other
modules makes the files of one scheduler of it. Ryle starts nothing on other hosts itself.
"""

from ryle.deploy.site import Process, Site, read_site

__all__ = ["Process", "Site", "read_site"]
