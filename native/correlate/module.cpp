// ryle.correlate._native: the X-engine's CPU hot loops.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_native, m) { m.doc() = "CPU hot loops of the X-engine"; }
