"""Plans that tests of deployments share."""

import re

from ryle.plan.checks import load_placement


def hosts(**kinds):
    """Tables of hosts: name = (cores, gpus)."""
    text = ""
    for name, (cores, gpus) in kinds.items():
        text += f'\n[[hosts]]\nname = "{name}"\ncores = {cores}\ngpus = {gpus}\nlink = 1e11\n'
    return text


def plan_of(o, tmp_path, tables, **places):
    """Write a plan by hand: engine = (host, cores) or (host, cores, gpu); gives what `load_placement` gives, and where."""
    lines = [f'[plan]\nobservation = "{o}"\nengines = {len(places)}\n{tables}']
    from ryle.config import load

    read = load(o)
    for name, (host, cores, *gpu) in places.items():
        kind, index = re.fullmatch(r"([a-z]+)(\d+)", name).groups()
        come = [str(e) for e in read.engine_endpoints(kind, int(index))]
        go = {"f": [str(read.spectra_endpoint(s)) for s in range(read.substreams)]}.get(kind, [])
        go = [str(read.visibilities_endpoint(int(index)))] if kind == "x" else go
        lines.append(
            f'[[engines]]\nkind = "{kind}"\nindex = {index}\nhost = "{host}"\ncores = {cores}\nnuma = 0\n'
            f"receives = {come}\nsends = {go}\n" + "".join(f"gpu = {g}\n" for g in gpu)
        )
    (path := tmp_path / "placement.toml").write_text("\n".join(lines))
    return (*load_placement(path), path)
