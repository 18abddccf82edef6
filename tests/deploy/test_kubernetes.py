"""Manifests that fit Kubernetes' own schemas, and that say what the plan says."""

import kubernetes_validate
import pytest
import yaml

from ryle.config import ConfigError, example, load
from ryle.deploy import kubernetes
from ryle.deploy.kubernetes import manifests
from ryle.deploy.processes import deployment
from ryle.plan.checks import load_placement
from ryle.plan.hardware import read_hardware
from ryle.plan.placement import place, written

#: Versions of Kubernetes whose schemas are asked.
VERSIONS = ("1.30", kubernetes_validate.latest_version())


def documents(d, **options):
    return {name: yaml.safe_load(text) for name, text in manifests(d, **options).items()}


def cuda(text):
    return text.replace("taps = 8", 'taps = 8\nbackend = "cuda"').replace('"0.25 s"', '"0.25 s"\nbackend = "cuda"')


@pytest.fixture
def found(planned):
    d = planned(cuda, gpus=((0,), (1,)), observation=kubernetes.OBSERVATION)
    return d, documents(d)


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_schemas_take_them(found, version):
    for document in found[1].values():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_say_so(found):
    """What the test before trusts."""
    document = found[1]["3-f0.yaml"]
    pod = document["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limit"] = pod["containers"][0]["resources"].pop("limits")
    with pytest.raises(kubernetes_validate.ValidationError, match="limit"):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document | {"spec": document["spec"] | {"replicas": "one"}}, VERSIONS[-1])


def test_what_they_say(found, tmp_path):
    d, documents = found
    assert list(documents) == ["0-config.yaml", "1-catcher0.yaml", "2-x0.yaml", "2-x1.yaml", "3-f0.yaml"]
    config = documents["0-config.yaml"]["data"]
    assert config["observation.toml"] == (tmp_path / "small.toml").read_text()
    assert config["placement.toml"] == (tmp_path / "placement.toml").read_text()
    sets = {name: document["spec"] for name, document in documents.items() if name != "0-config.yaml"}
    for p in d.processes:
        (spec,) = (s for s in sets.values() if s["selector"]["matchLabels"]["app.kubernetes.io/component"] == p.name)
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["nodeSelector"] == {"kubernetes.io/hostname": p.host} and pod["hostNetwork"] is True
        assert container["command"] == list(p.command) and kubernetes.OBSERVATION in p.command
        resources = container["resources"]
        assert resources["requests"] == resources["limits"]
        assert resources["limits"]["cpu"] == str(len(p.cores))
        assert resources["limits"].get("nvidia.com/gpu") == (str(len(p.gpus)) if p.gpus else None)
        assert int(resources["limits"]["memory"].removesuffix("Mi")) << 20 >= p.memory - p.huge
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        assert not any(e["name"].startswith("CUDA") for e in container["env"])
        assert pod["terminationGracePeriodSeconds"] > 120


def test_dpdk_has_huge_pages(planned):
    def dpdk(text):
        return text + 'receive = { by = "dpdk", device = "0000:41:00.0" }\n'

    d = planned(dpdk)
    assert all(p.huge >= 1 << 30 and not p.huge % (1 << 21) for p in d.processes)
    for name, document in documents(d).items():
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
        if name != "0-config.yaml":
            resources = document["spec"]["template"]["spec"]["containers"][0]["resources"]
            assert int(resources["limits"]["hugepages-2Mi"].removesuffix("Mi")) >= 1024


def test_a_gpu_for_two_is_refused(planned):
    with pytest.raises(ConfigError, match=r"GPU 1 of a for f0 and x0|GPU 1 of a for x0 and f0"):
        manifests(planned(cuda, gpus=((1,), (1,))))


def test_antennas_of_a_file_of_their_own_are_there_too(tmp_path):
    o = load(example("paper128"))
    hardware = read_hardware()
    (path := tmp_path / "placement.toml").write_text(written(o, place(o, hardware), hardware.servers["h200"]))
    config = documents(deployment(*load_placement(path), path))["0-config.yaml"]["data"]
    assert config["paper128.txt"] == example("paper128").with_name("paper128.txt").read_text()


@pytest.mark.parametrize(
    "text", ["a\n", "a\n\nb\n", " a\n", "a\n\n", "\n", "a: b\n- c\n", "ä\t'\"\n", "yes", "1", "# no\n"]
)
def test_texts_come_back_from_yaml(text):
    value = {"a": {"text": text, "list": [{"x": text, "y": [1, True, None]}, {}, []]}}
    assert yaml.safe_load("\n".join(kubernetes._yaml(value))) == value
