// What stands for libcufile: the functions that Ryle calls, as cufile.h declares them, with pwrite from memory of the host.
// It refuses what is not whole pages, so that a test sees what Ryle gives it. Knobs: short writes, errors.
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <set>

namespace {
struct Status {
    int status, cuda;
};
struct Descriptor {
    int kind;
    union {
        int fd;
        void* handle;
    } file;
    const void* operations;
};
struct Properties {
    struct {
        unsigned major, minor;
        size_t poll_threshold, most_direct;
        unsigned kinds, control;
    } nvfs;
    unsigned features, device_cache, buffer_cache, pinned, batch, timeout;
};
constexpr int PAGE = 4096;
std::set<int> registered;
size_t most = 0, calls = 0;
ssize_t answer = 0;
int number = 0, refusal = 0;
unsigned kinds = 0;
}  // namespace

extern "C" {
// Write at most so many bytes a call (0: all).
void fake_most(size_t bytes) { most = bytes; }
// Let writes after so many more give an answer below zero, with an errno (0: none).
void fake_answer(size_t after, ssize_t given, int error) { calls = after, answer = given, number = error; }
// Let handles be refused with a status (0: none).
void fake_refuse(int status) { refusal = status; }
// Say which kinds of disks are written directly.
void fake_kinds(unsigned bits) { kinds = bits; }
int fake_registered() { return static_cast<int>(registered.size()); }

Status cuFileDriverOpen() { return {0, 0}; }
Status cuFileDriverGetProperties(Properties* to) {
    *to = {};
    to->nvfs.kinds = kinds;
    return {0, 0};
}
Status cuFileHandleRegister(void** handle, Descriptor* from) {
    if (refusal) return {refusal, 0};
    const int flags = fcntl(from->file.fd, F_GETFL);
    if (from->kind != 1 || flags < 0) return {5022, 0};
    if (!(flags & O_DIRECT)) return {5020, 0};
    if (!registered.insert(from->file.fd).second) return {5028, 0};
    *handle = new int(from->file.fd);
    return {0, 0};
}
void cuFileHandleDeregister(void* handle) {
    registered.erase(*static_cast<int*>(handle));
    delete static_cast<int*>(handle);
}
ssize_t cuFileWrite(void* handle, const void* base, size_t size, off_t offset, off_t first) {
    if (answer && !calls--) return errno = number, answer;
    if (!registered.count(*static_cast<int*>(handle)) || size % PAGE || offset % PAGE || !size) return errno = EINVAL, -1;
    if (most) size = std::min(size, most);
    // A second way to the file, for memory that is not aligned as direct writes want it.
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", *static_cast<int*>(handle));
    const int fd = open(path, O_WRONLY);
    const ssize_t written = pwrite(fd, static_cast<const char*>(base) + first, size, offset);
    close(fd);
    return written;
}
}
