# SPDX-License-Identifier: MIT
"""make: writes arrays as .npy in many ways.  check: what C made of them is what numpy sees."""
import io
import sys

import numpy as np

rng = np.random.default_rng(5)
WIDE = rng.standard_normal((7, 13))
ARRAYS = {
    "c4": WIDE.astype("<f4"),
    "f4": np.asfortranarray(WIDE.astype("<f4")),
    "c8": WIDE,
    "f8": np.asfortranarray(WIDE),
    "row": WIDE[0].astype("<f4"),
    "column": WIDE[:, :1].astype("<f4"),
    "large": rng.standard_normal((300, 1001)).astype("<f4"),
}


def make():
    for name, array in ARRAYS.items():
        np.save(f"{name}.npy", array)
    for version in (1, 2, 3):
        with open(f"v{version}.npy", "wb") as file:
            np.lib.format.write_array(file, ARRAYS["c4"], version=(version, 0))


def check():
    arrays = dict(ARRAYS, v1=ARRAYS["c4"], v2=ARRAYS["c4"], v3=ARRAYS["c4"])
    for name, array in arrays.items():
        expected = np.ascontiguousarray(np.atleast_2d(array).astype("<f4"))
        written = io.BytesIO()
        np.save(written, expected)
        with open(f"{name}-out.npy", "rb") as file:
            # Byte for byte the file that numpy would have written.
            assert file.read() == written.getvalue(), name


{"make": make, "check": check}[sys.argv[1]]()
