# SPDX-License-Identifier: Apache-2.0
# Fails by an exception with a cause in another file; what it prints before does not matter.
import net

try:
    net.read("{")
except ValueError as e:
    print("closing", flush=True)
    raise RuntimeError("no configuration") from e
