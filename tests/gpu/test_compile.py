import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import ryle
from in_flight import disassemble, loops, matrix_instructions, overwritten
from ryle.gpu import kernel_variants
from ryle.gpu.compile import (
    ARCHITECTURES,
    CompileError,
    Resources,
    compile_source,
    included_files,
    read_resources,
)
from ryle.gpu.parameters import parameter_names

PROBE = Path(__file__).parent / "kernels" / "probe.cu"
#: The oldest, which lacks most of what newer ones have, and the one that most kernels are written for, by hand and with
#: instructions of its own. What these two take, the others as good as always take too: `make kernels` looks.
ALWAYS = ("sm_80", "sm_90a")


def title(variant):
    return "-".join([variant.source.stem, *(f"{name}={macro}" for name, macro in variant.defines.items())])


def compilations():
    """Every variant for every architecture that it is for; what neither of `ALWAYS` takes, always for its first."""
    for variant in kernel_variants():
        always = set(ALWAYS) & set(variant.architectures) or {variant.architectures[0]}
        for arch in variant.architectures:
            marks = [] if arch in always else [pytest.mark.long]
            yield pytest.param(variant, arch, id=f"{title(variant)}-{arch}", marks=marks)


def check(compiled):
    assert not compiled.warnings
    assert compiled.resources
    for name, used in compiled.resources.items():
        assert used.spill_stores == used.spill_loads == 0, f"{name} spills: {used}"


def parameters_in(cubin):
    """Give the number of parameters of each kernel of an ELF file, by its `.nv.info` sections."""
    at, size, count, names = (*struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58))
    sections = [struct.unpack_from("<IIQQQQ", cubin, at + i * size) for i in range(count)]
    found = {}
    for name, _, _, _, begin, length in sections:
        title = cubin[sections[names][4] + name :].partition(b"\0")[0].decode()
        if title.startswith(".nv.info."):
            next_, attributes = begin, []
            while next_ < begin + length:
                form, attribute, value = struct.unpack_from("<BBH", cubin, next_)
                attributes.append(attribute)
                next_ += 4 + (value if form == 4 else 0)  # a form of so many bytes
            found[title.removeprefix(".nv.info.")] = attributes.count(0x17)  # one a parameter
    return found


@pytest.mark.parametrize("variant, arch", list(compilations()))
def test_every_kernel_compiles_for_every_architecture(variant, arch):
    compiled = compile_source(variant.source, dict(variant.defines), arch)
    check(compiled)
    source, parameters = variant.source.read_text(), parameters_in(compiled.cubin)
    assert parameters and set(parameters) <= set(compiled.resources)
    for name, count in parameters.items():
        assert len(parameter_names(source, name, count)) == count > 0
    if variant.source.name == "hopper.cu":
        lines = disassemble(compiled.cubin)
        found = loops(lines)
        assert matrix_instructions(lines) == sum(map(matrix_instructions, found)) > 0  # all are looked at
        for body in found:
            assert not overwritten(body)


TURN = [
    ".L_x_1:",
    "LDSM.16.M88.4 R8, [R2]",
    "IGMMA.64x64x32.S8.S8 R24, R8, gdesc[UR8], R24, gsb0",
    "WARPGROUP.DEPBAR.LE gsb0, 0x1",
    "LDSM.16.M88.4 R12, [R2+UR7]",
    "IGMMA.64x64x32.S8.S8 R24, R12, gdesc[UR8], R24, gsb0",
    "WARPGROUP.DEPBAR.LE gsb0, 0x1",
    "@P0 BRA `(.L_x_1)",
]


@pytest.mark.parametrize(
    "place, line, wrong",
    [
        (0, TURN[0], None),
        (1, "LDSM.16.M88.4 R12, [R2]", "LDSM.16.M88.4 R12, [R2]"),  # while the turn before is under way
        (1, "@!P1 IADD3 R15, R7, R6, RZ", "@!P1 IADD3 R15, R7, R6, RZ"),
        (1, "STS [R12], R3", None),
        (3, "WARPGROUP.DEPBAR.LE gsb0, 0x2", TURN[4]),
        (4, "LDSM.16.M88.4 R8, [R2]", "LDSM.16.M88.4 R8, [R2]"),
        (4, "LDSM.16.M88.2 R10, [R2]", "LDSM.16.M88.2 R10, [R2]"),
        (4, "ISETP.NE.AND P0, PT, R9, R10, PT", None),
        (6, "WARPGROUP.DEPBAR.LE gsb0, 0x0", None),
    ],
)
def test_registers_written_too_early_are_found(place, line, wrong):
    body = [line if i == place else other for i, other in enumerate(TURN)]
    (found,) = loops(["MOV R1, R2", *body, "EXIT"])
    assert found == body
    assert set(overwritten(found)) == ({wrong} if wrong else set())


def test_every_source_is_compiled_by_some_module():
    sources = set(Path(ryle.__file__).resolve().parent.rglob("*.cu"))
    assert sources == {variant.source.resolve() for variant in kernel_variants()}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_probe_compiles_for_every_architecture(arch):
    compiled = compile_source(PROBE, {"FACTOR": 3}, arch)
    check(compiled)
    names = set(re.findall(r"^KERNEL\(\d+, \d+\) (\w+)\(", PROBE.read_text(), re.MULTILINE))
    assert len(names) == 10
    assert set(compiled.resources) == names
    assert all(used.registers > 0 and used.stack == used.shared == 0 for used in compiled.resources.values())
    assert compiled.cubin.startswith(b"\x7fELF")
    assert int.from_bytes(compiled.cubin[18:20], "little") == 190  # EM_CUDA: machine code, not PTX


def test_macros_reach_the_kernel():
    codes = [compile_source(PROBE, {"FACTOR": factor}, "sm_90a").cubin for factor in (3, 5, "(1 + 2)")]
    assert codes[0] != codes[1]
    assert codes[0] == codes[2]


def test_a_macro_of_no_integer_is_refused():
    with pytest.raises(TypeError, match=r"macro FACTOR is 0\.5; give an integer, or the text"):
        compile_source(PROBE, {"FACTOR": 0.5}, "sm_90a")


def test_an_error_shows_file_line_and_text(tmp_path):
    source = tmp_path / "wrong.cu"
    source.write_text('#include "ryle/gpu/device.cuh"\n\nKERNEL(32, 1) k(int *out) {\n    *out = undeclared;\n}\n')
    with pytest.raises(CompileError) as caught:
        compile_source(source, {"A": 1, "B": "x"}, "sm_80")
    message = str(caught.value)
    assert "wrong.cu for sm_80 with A=1, B=x does not compile" in message
    assert f'{source}(4): error: identifier "undeclared" is undefined' in message


FIRST_USE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from ryle.gpu.compile import compile_source

sys.setswitchinterval(1e-6)
barrier = Barrier(8)

def compile_nothing(_):
    barrier.wait()
    try:
        compile_source(Path("nowhere.cu"), {}, "sm_80")
    except FileNotFoundError:
        return
    raise AssertionError

with ThreadPoolExecutor(8) as threads:
    list(threads.map(compile_nothing, range(8)))
"""


@pytest.mark.long
def test_threads_may_be_the_first_to_compile_at_once():
    for _ in range(12):  # without a lock one in five fails
        run = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run.stderr


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(CompileError, match="sm_11 with FACTOR=1 does not compile"):
        compile_source(PROBE, {"FACTOR": 1}, "sm_11")


def test_a_missing_source_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cu"):
        compile_source(tmp_path / "nowhere.cu", {}, "sm_90a")


SERIALISED = """
#include "ryle/gpu/device.cuh"
DEVICE void multiply(int (&d)[4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0,%1,%2,%3}, %4, %5, 1;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(a), "l"(b));
}
KERNEL(128, 1) serialised(int *out, uint64_t a, uint64_t b) {
    int d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;");
    multiply(d, a, b);
    d[0] += 5;  // touched while the tensor cores own it
    multiply(d, a + 1, b);
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""

IGNORED = """
extern "C" __global__ void ignored(int *out) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    out[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(
    "text, what", [(SERIALISED, "wgmma.mma_async instructions are serialized"), (IGNORED, "C7508")]
)
def test_code_slower_than_written_is_an_error(tmp_path, text, what):
    source = tmp_path / "slow.cu"
    source.write_text(text)
    with pytest.raises(
        CompileError, match=f"slow.cu for sm_90a compiles to something slower than was written[^$]*{what}"
    ):
        compile_source(source, {}, "sm_90a")


def test_spills_stack_and_static_memory_are_seen(tmp_path):
    source = tmp_path / "greedy.cu"
    source.write_text("""
        extern "C" __global__ void __launch_bounds__(1024, 1) spilling(const float *in, float *out) {
            float x[100];
            #pragma unroll
            for (int i = 0; i < 100; i++) x[i] = in[i * 1024 + threadIdx.x];
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 100; i++) out[i * 1024 + threadIdx.x] = x[i] * x[(i * 37 + 11) % 100];
        }
        extern "C" __global__ void fixed(int *out) {
            __shared__ int memory[100];
            memory[threadIdx.x] = out[threadIdx.x];
            __syncthreads();
            out[threadIdx.x] = memory[99 - threadIdx.x];
        }
        __device__ __noinline__ int called(int *out) { return out[3] + 1; }
        extern "C" __global__ void calls(int *out) { *out = called(out); }
    """)
    used = compile_source(source, {}, "sm_90a").resources
    assert used["spilling"].registers == 64
    assert min(used["spilling"].spill_stores, used["spilling"].spill_loads, used["spilling"].stack) > 0
    assert used["fixed"].shared == 400
    assert used["fixed"].spill_stores == 0
    assert used["calls"].registers > 0
    with pytest.raises(AssertionError, match="spilling spills"):
        check(compile_source(source, {}, "sm_90a"))


def test_a_warning_is_seen(tmp_path):
    source = tmp_path / "careless.cu"
    source.write_text('extern "C" __global__ void k(int *out) { int unused; *out = 1; }\n')
    compiled = compile_source(source, {}, "sm_90a")
    assert len(compiled.warnings) == 1
    assert "careless.cu(1): warning" in compiled.warnings[0]


def test_both_forms_of_the_assemblers_report_are_read():
    nvrtc = """\
ptxas info    : 16 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
ptxas         .     1256 bytes stack frame, 2076 bytes spill stores, 2080 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 1256 bytes cumulative stack size, 48 bytes smem, 372 bytes cmem[0]
"""
    nvcc = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z3fooi
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""
    assert read_resources(nvrtc) == {"a": Resources(64, 1256, 2076, 2080, 48)}
    assert read_resources(nvcc) == {"b": Resources(12, 0, 0, 0, 0), "_Z3fooi": Resources(0, 8, 4, 4, 0)}


def test_included_files_are_followed_once(tmp_path):
    (tmp_path / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text('  # include "a.cuh"\n#include "missing.cuh"\n// #include "c.cuh"\n')
    (tmp_path / "c.cuh").write_text("")
    (tmp_path / "k.cu").write_text('#include "a.cuh"\n#include "ryle/gpu/device.cuh"\n#include <none>\n')
    device = Path(ryle.__file__).resolve().parent / "gpu" / "device.cuh"
    expected = [tmp_path / "k.cu", tmp_path / "a.cuh", device, tmp_path / "b.cuh"]
    assert included_files(tmp_path / "k.cu") == [path.resolve() for path in expected]
