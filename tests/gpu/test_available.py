import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cuda.core
import pytest
from cuda.bindings import driver, nvrtc

import ryle.gpu
from ryle.gpu import GpuUnavailable, compile, gpu_problem, open_gpu, power
from ryle.gpu.power import EnergyMeter, LoadMeter

OK = driver.CUresult.CUDA_SUCCESS


@pytest.fixture
def computer(monkeypatch):
    """A computer with two GPUs, the second of them old; what is wrong with it is set by the tests."""

    def attribute(which, device):
        major = which == driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        return OK, (9, 7)[device] if major else (0, 5)[device]

    def set_(**answers):
        for name, answer in answers.items():
            monkeypatch.setattr(driver, name, lambda *args, answer=answer: answer)

    set_(cuInit=(OK,), cuDriverGetVersion=(OK, 13000), cuDeviceGetCount=(OK, 2))
    monkeypatch.setattr(driver, "cuDeviceGet", lambda ordinal: (OK, ordinal))
    monkeypatch.setattr(driver, "cuDeviceGetAttribute", attribute)
    return set_


def test_nothing_is_wrong(computer):
    assert gpu_problem() is None


def test_without_cuda_core(computer, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    assert "cuda-core or cuda-bindings is not installed" in gpu_problem()
    assert "pip install 'ryle[cuda]'" in gpu_problem()


def test_with_an_old_cuda_core(computer, monkeypatch):
    for version, right in (("0.3.2", False), ("1.1.9", False), ("1.2.0", True), ("1.10.0rc1", True), ("2", True)):
        monkeypatch.setattr(cuda.core, "__version__", version)
        problem = gpu_problem()
        assert (problem is None) == right
        assert right or f"cuda-core {version} is too old" in problem


def test_without_a_driver(computer, monkeypatch):
    def missing(flags):
        raise RuntimeError("libcuda.so.1 cannot be found")

    monkeypatch.setattr(driver, "cuInit", missing)
    assert "there is no NVIDIA driver here" in gpu_problem()
    with pytest.raises(GpuUnavailable, match="install the driver, 580 or later"):
        open_gpu()


def test_with_an_old_driver(computer):
    computer(cuDriverGetVersion=(OK, 12040))
    assert gpu_problem().startswith("the NVIDIA driver knows CUDA up to 12.4, 13.0 is needed; install driver 580")


def test_with_a_driver_that_does_not_start(computer):
    computer(cuInit=(driver.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,))
    assert "does not start (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH); see what nvidia-smi says" in gpu_problem()


def test_without_a_device(computer):
    computer(cuInit=(driver.CUresult.CUDA_ERROR_NO_DEVICE,))
    assert gpu_problem().startswith("there is no NVIDIA GPU 0 here: the driver shows none; CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize("ordinal", [-1, 2])
def test_without_that_device(computer, ordinal):
    assert gpu_problem(ordinal).startswith(f"there is no NVIDIA GPU {ordinal} here: the driver shows 2, counted from 0")


def test_with_an_old_device(computer):
    assert gpu_problem(1).startswith("GPU 1 is of compute capability 7.5, 8.0 (Ampere) or later is needed")


def test_without_the_compiler(computer, monkeypatch):
    def missing():
        raise RuntimeError("libnvrtc.so.13 cannot be found")

    compile._nvrtc.cache_clear()
    monkeypatch.setattr(nvrtc, "nvrtcVersion", missing)
    try:
        assert "NVRTC is not here (libnvrtc.so.13 cannot be found); install them with" in gpu_problem()
        with pytest.raises(GpuUnavailable, match="NVRTC is not here"):
            compile.compile_source(Path(__file__).parent / "kernels" / "probe.cu", {"FACTOR": 1}, "sm_90a")
    finally:
        compile._nvrtc.cache_clear()


def test_importing_ryle_does_not_import_cuda():
    script = (
        "import sys, ryle.gpu, ryle.gpu.cache, ryle.gpu.power; print([m for m in sys.modules if m.startswith('cuda')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_header_travels_with_the_package():
    assert (Path(ryle.gpu.__file__).parent / "device.cuh").is_file()


def test_a_meter_without_a_counter_runs_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    monkeypatch.delattr("cuda.bindings.nvml", raising=False)
    meter = EnergyMeter()
    assert not meter.available
    assert "cuda-bindings 13.1 or later is not installed" in meter.problem
    with meter as entered:
        assert entered is meter
    assert math.isnan(meter.joules)
    assert math.isnan(meter.stop())
    assert math.isnan(meter.sm_clock())


def test_a_meter_reads_the_counter(computer, monkeypatch):
    from cuda.bindings import nvml

    counter = iter([5_000, 7_000, 10_500])  # mJ: when opened, at the start, at the end
    monkeypatch.setattr(nvml, "init_v2", lambda: None)
    monkeypatch.setattr(driver, "cuDeviceGetPCIBusId", lambda length, device: (OK, b"0000:1b:00.0\0\0\0"))
    monkeypatch.setattr(nvml, "device_get_handle_by_pci_bus_id_v2", {"0000:1b:00.0": 42}.__getitem__)
    monkeypatch.setattr(nvml, "device_get_total_energy_consumption", lambda device: {42: counter}[device].__next__())
    monkeypatch.setattr(
        nvml, "device_get_clock_info", lambda device, kind: {(42, nvml.ClockType.CLOCK_SM): 1980}[device, kind]
    )
    with EnergyMeter() as meter:
        assert meter.available
        assert meter.sm_clock() == 1.98e9
    assert meter.joules == 3.5


def test_power_is_that_between_steps_of_the_counter(monkeypatch):
    """Of 500 W: the counter moves every 0.1 s, and what is measured begins and ends between two steps."""
    now = [0.0]
    monkeypatch.setattr(power, "open_management", lambda ordinal: (None, None))
    monkeypatch.setattr(power.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(EnergyMeter, "_total", lambda self: 50.0 * math.floor(now[0] / 0.1 + 1e-9))
    meter = EnergyMeter()
    for start in (0.099, 0.101):
        now[0] = start
        meter.start()
        meter.look()
        assert math.isnan(meter.watts)
        while now[0] < start + 0.75:
            now[0] += 0.003
            meter.look()
        assert meter.watts == pytest.approx(500, rel=0.01)
        assert meter.stop() in (350.0, 400.0)


def test_a_meter_of_load_reads_what_there_is(computer, monkeypatch):
    from cuda.bindings import nvml

    now, asked = [100.0], []

    def power(device):
        asked.append(device)
        return 212_500  # mW

    monkeypatch.setattr("ryle.gpu.power.time.monotonic", lambda: now[0])
    monkeypatch.setattr(nvml, "init_v2", lambda: None)
    monkeypatch.setattr(driver, "cuDeviceGetPCIBusId", lambda length, device: (OK, b"0000:1b:00.0\0\0\0"))
    monkeypatch.setattr(nvml, "device_get_handle_by_pci_bus_id_v2", {"0000:1b:00.0": 42}.__getitem__)
    monkeypatch.setattr(nvml, "device_get_utilization_rates", {42: SimpleNamespace(gpu=37, memory=3)}.__getitem__)
    monkeypatch.setattr(nvml, "device_get_power_usage", power)
    memory = {42: SimpleNamespace(used=12 << 30, total=80 << 30, free=68 << 30)}
    monkeypatch.setattr(nvml, "device_get_memory_info_v2", memory.__getitem__)
    meter = LoadMeter()
    assert meter.read() == {"busy": 37.0, "power": 212.5, "memory": 12 << 30, "memory_size": 80 << 30}
    assert meter.read() and len(asked) == 1  # a moment later
    now[0] += 1
    monkeypatch.setattr(nvml, "device_get_utilization_rates", {}.__getitem__)  # as of a part of a GPU (MIG)
    assert meter.read() == {"power": 212.5, "memory": 12 << 30, "memory_size": 80 << 30} and len(asked) == 2


def test_a_meter_of_load_without_a_library_tells_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    monkeypatch.delattr("cuda.bindings.nvml", raising=False)
    assert LoadMeter().read() == {}


@pytest.mark.parametrize(
    "capability, arch",
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100"), ((12, 0), "sm_120")],
)
def test_the_architecture_of_a_device(capability, arch):
    from ryle.gpu.device import architecture

    assert architecture(*capability) == arch
