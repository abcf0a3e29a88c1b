"""What ranks get of parts of gradients by each way to send them, by how many bytes, and what rounding leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from multinode_image.exchange import codecs

BF16 = torch.bfloat16


def drive(transfer: codecs.Transfer) -> list[bool]:
    return list(transfer)


def low(exchange: Any, *shape: int, holds: bool = True) -> Any:
    """Return what exchanges a part of 12 numbers by bfloat16, where that was right or not."""
    return lambda part, ranks: exchange(
        part, ranks, torch.zeros(shape or (2, ranks.size, -(-12 // ranks.size)), dtype=BF16), lambda: holds
    )


def rows(dtype: Any, holds: bool = True) -> Any:
    """Return what exchanges a part as a matrix of rows of two."""

    def exchange(part: Any, ranks: Any) -> codecs.Transfer:
        table = part.view(6, 2)
        return codecs.average_rows(table, ranks, dtype, lambda: codecs.average(part, ranks), lambda: holds)

    return exchange


DENSE = 1 + 2.0**-10  # times a rank and a place, which are no numbers of bfloat16


def fill(part: str, rank: int) -> Any:
    """Return 12 numbers of a rank; a sparse matrix has one row in each, and another row in the first rank."""
    numbers = torch.arange(1.0, 13.0) * (rank + 1) * DENSE
    if part == "sparse":
        numbers[2 : 10 if rank == 0 else 12] = 0
    return numbers


# In each: what is exchanged, how, its bytes on two and on three ranks, whether it is exact, collectives.
ONE, TWO, THREE, FOUR = ([codecs.MORE] * more + [codecs.LAST] * last for more, last in ((0, 1), (1, 1), (0, 2), (1, 2)))
PARTS = {
    "float32": ("dense", codecs.average, (48, 64 * 1), True, ONE),
    "bf16": ("dense", low(codecs.average_low, 12), (24, 32), False, ONE),
    "bf16 was wrong": ("dense", low(codecs.average_low, 12, holds=False), (24 + 48, 32 + 64), True, THREE),
    "shares": ("dense", low(codecs.average_shares), (12 + 12, 16 + 16), False, TWO),
    "shares were wrong": ("dense", low(codecs.average_shares, holds=False), (24 + 48, 32 + 64), True, FOUR),
    "rows": ("sparse", rows(torch.float32), (8 + 24, 2 * (8 + 24)), True, TWO),
    "rows in bf16": ("sparse", rows(BF16), (8 + 16, 2 * (8 + 16)), False, TWO),
    "rows in bf16 were wrong": ("sparse", rows(BF16, False), (8 + 16 + 8 + 24, 2 * (8 + 16 + 8 + 24)), True, TWO * 2),
    "all rows": ("dense", rows(BF16), (8 + 48, 2 * 8 + 64), True, TWO),
}


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_get_the_mean_of_all_by_so_many_bytes(run_ranks: Any, size: int) -> None:
    def act() -> dict[str, Any]:
        done = {}
        for name, (kind, exchange, *_) in PARTS.items():
            ranks, part = codecs.Ranks(dist.group.WORLD), fill(kind, dist.get_rank())
            yields = drive(exchange(part, ranks))
            done[name] = (part.tolist(), ranks.sent, yields)
        return done

    results = [rank.result for rank in run_ranks(act, size=size)[0]]

    for name, (kind, _, sent, exact, yields) in PARTS.items():
        mean = sum(fill(kind, rank) for rank in range(size)) / size
        numbers = torch.tensor(results[0][name][0])
        assert all(rank[name] == (numbers.tolist(), sent[size - 2], yields) for rank in results), name
        assert torch.allclose(numbers, mean, rtol=1e-6 if exact else 2.0**-6), name
        assert torch.allclose(numbers, mean, rtol=1e-6) is exact, name


@pytest.mark.parametrize(
    ("dtype", "offset", "width"),
    [(torch.float32, 0, 2), (torch.float32, 1, 2), (torch.float32, 0, 3), (torch.float64, 1, 1), (BF16, 0, 4),
     (BF16, 0, 3)],
)  # fmt: skip
def test_a_row_counts_by_its_bits(dtype: Any, offset: int, width: int) -> None:
    table = torch.zeros(offset + 6 * width, dtype=dtype)[offset:].view(6, width)
    table[1, 0], table[2, -1], table[4, -1] = 1.0, float("nan"), -0.0

    assert codecs.find_rows(table).tolist() == [1, 2, 4]


def test_what_8_bits_take_from_a_number_goes_into_the_next_step(run_ranks: Any) -> None:
    given = torch.linspace(-1.0, 1.0, 3 * codecs.BLOCK).square()  # fills no share of two to its end
    scale = float(given.max()) / codecs.LARGEST

    def act() -> Any:
        ranks = codecs.Ranks(dist.group.WORLD)
        memory, parts = codecs.Memory(len(given), 2), list[Any]()
        for _ in range(16):
            parts.append(given * 2 * dist.get_rank())  # a mean of what was given
            assert drive(codecs.average_eight_bits(parts[-1], ranks, memory)) == TWO
        return parts[0].tolist(), (sum(parts) / 16).tolist(), ranks.sent // 16

    results = [rank.result for rank in run_ranks(act)[0]]

    first, mean = (torch.tensor(numbers) for numbers in results[0][:2])
    assert results[0] == results[1] and results[0][2] == 2 * 2 * (codecs.BLOCK + 4)
    assert scale / 8 < (first - given).abs().max() < 2 * scale
    assert (mean - given).abs().max() < 2 * scale / 16


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_block_with_a_number_that_is_not_finite_is_none_and_leaves_nothing(bad: float) -> None:
    blocks = torch.ones(2, codecs.BLOCK) / 3
    blocks[1, 5] = bad
    packed, sums = torch.zeros(2 * (codecs.BLOCK + 4), dtype=torch.int8), torch.zeros(2, codecs.BLOCK)

    codecs.encode(blocks, packed)
    codecs.add_decoded(packed, sums, 3.0)

    assert torch.allclose(sums[0], torch.ones(codecs.BLOCK)) and sums[1].isnan().all()
    assert blocks.isfinite().all() and not blocks[1].any()
