"""Names of kernels' parameters, read from their sources, and put in order."""

import pytest

from ryle.gpu.parameters import in_order, parameter_names

SOURCE = """
// KERNEL(1, 1) scale(int wrong) {
KERNEL(THREADS, MIDDLE > 8 ? 2 : 4)
scale(float2* __restrict__ y,  // [tile][RADIX], of (what, it says)
      const void* turns /* one, two */, unsigned long long count
#if TIMED || LATE
      ,
      uint64_t* clock, int late
#endif
) {
    scale_again(y);
}
KERNEL(1, 1) empty() {}
extern "C" __global__ __launch_bounds__(Transform::most) void transform(const Value *source,
                                                                        Value *result) {
}
"""


def test_names_are_read():
    assert parameter_names(SOURCE, "scale", 3) == ("y", "turns", "count")
    assert parameter_names(SOURCE, "scale", 5) == ("y", "turns", "count", "clock", "late")
    assert parameter_names(SOURCE, "empty", 0) == ()
    assert parameter_names(SOURCE, "transform", 2) == ("source", "result")
    with pytest.raises(ValueError, match="compiled with 4 parameters; its source names y, turns, count, clock, late"):
        parameter_names(SOURCE, "scale", 4)
    with pytest.raises(ValueError, match="no kernel 'scale_again'"):
        parameter_names(SOURCE, "scale_again", 1)


def test_arguments_are_put_in_order():
    assert in_order("k", ("a", "b"), {"b": 1, "a": 2}) == [2, 1]
    for given, said in (
        ({"a": 1}, "k lacks b; it takes a, b"),
        ({"a": 1, "b": 2, "c": 3}, "k has no parameter c; it takes a, b"),
        ({"a": 1, "c": 3}, "k lacks b, has no parameter c; it takes a, b"),
    ):
        with pytest.raises(TypeError, match=f"^{said}$"):
            in_order("k", ("a", "b"), given)
