# SPDX-License-Identifier: Apache-2.0
"""An accelerator in Verilog by NNgen (https://github.com/NNgen/nngen, Apache-2.0; PyPI: nngen): y = x w^T of one shape,
x [M, K] and w [N, K] in int8, y [M, N] in int32. Beside it a header with its sizes and registers, for C.

usage: python generate.py FOLDER [M K N [PARALLEL_K PARALLEL_N]]     default: 8 64 32 4 4
"""

import sys
from pathlib import Path

import nngen

NAME = "nnmac"
SHAPE, PARALLEL = [8, 64, 32], [4, 4]


def register(storage) -> int:
    """The offset of the register that says where a tensor lies."""
    return 4 * (nngen.verilog.control_reg_global_addr + storage.global_index)


def main(folder: Path, m: int, k: int, n: int, parallel_k: int, parallel_n: int) -> None:
    x = nngen.placeholder(nngen.int8, shape=(m, k), name="x")
    w = nngen.variable(nngen.int8, shape=(n, k), name="w")
    sums = {"dtype": nngen.int32, "sum_dtype": nngen.int32}
    y = nngen.matmul(x, w, transposed_b=True, name="y", par_left_col=parallel_k, par_out_col=parallel_n, **sums)
    verilog = nngen.to_verilog([y], NAME, silent=True)
    for one in (x, w, y):
        if tuple(one.get_aligned_shape()) != tuple(one.shape):
            sys.exit(f"{one.name} would be padded to {one.get_aligned_shape()}: choose a multiple of the parallelism")
    sizes = {"ROWS": m, "DEPTH": k, "COLUMNS": n, "PRODUCTS": parallel_k * parallel_n}
    sizes |= {"X": register(x), "W": register(w), "Y": register(y)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.v").write_text(verilog)
    (folder / f"{NAME}_sizes.h").write_text("".join(f"#define NNMAC_{key} {value}\n" for key, value in sizes.items()))
    print(f"{folder / NAME}.v: [{m}, {k}] by [{k}, {n}], {len(verilog.splitlines())} lines")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 5, 7):
        sys.exit(__doc__)
    numbers = [int(word) for word in sys.argv[2:]]
    main(Path(sys.argv[1]), *(numbers[:3] or SHAPE), *(numbers[3:] or PARALLEL))
