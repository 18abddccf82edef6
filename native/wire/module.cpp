// ryle.wire._native: CPU hot loops.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_native, m) { m.doc() = "CPU hot loops"; }
