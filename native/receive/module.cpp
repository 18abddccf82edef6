// ryle.receive._native: the transposition of F-heaps to K-blocks, packets to chunks, the senders.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_assembler(nb::module_& m);
void bind_sources(nb::module_& m);
void bind_send(nb::module_& m);
void bind_capture(nb::module_& m);
void bind_send_rows(nb::module_& m);

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    m.doc() = "F-heaps to K-blocks; packets to chunks; packet senders";
    bind_assembler(m);
    bind_sources(m);
    bind_send(m);
    bind_capture(m);
    bind_send_rows(m);
}
