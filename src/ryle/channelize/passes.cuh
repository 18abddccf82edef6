// What windows.cu tells filter.cu to do.
#pragma once
#include "ryle/gpu/device.cuh"

// A pass of the filter over a segment: the spectra of a group that have the same coarse delay.
struct alignas(16) Pass {
    int64_t
        start;  // value, counted from the chunk's first, at which the window of the group's spectrum 0 starts or would
    int stream;
    int slot;   // number of the group among those of this launch, through all streams
    int group;  // among all groups, through all streams
    int segment;
    int count;  // only of the first element: how many passes follow it
    int unused;
};
static_assert(sizeof(Pass) == 32);
