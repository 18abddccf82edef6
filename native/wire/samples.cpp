// Packed big-endian samples to numbers and back.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_samples(nb::module_&) {}
