#pragma once

namespace ryle_probe {

DEVICE float scaled(float value) { return FACTOR * value; }

} // namespace ryle_probe
