// ryle.wire._native: sample codecs and packet parsers.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_pieces(nb::module_& m);
void bind_packets(nb::module_& m);
void bind_samples(nb::module_& m);
void bind_vdif(nb::module_& m);

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    m.doc() = "Sample codecs and packet parsers";
    bind_pieces(m);
    bind_packets(m);
    bind_samples(m);
    bind_vdif(m);
}
