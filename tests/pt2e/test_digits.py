# SPDX-License-Identifier: Apache-2.0
"""Networks that were trained: their accuracy in int8, and their integers."""

import digits
import keywords
import torch
from flow import compare
from verified import all_verified


def test_whole_test_set_of_the_digits_on_the_rtl():
    (x, y), (test_x, test_y) = digits.digits()
    assert len(test_x) == 359
    model = digits.train(digits.network(), x, y, "presil")
    graph = digits.quantize(model, x[:256])
    with torch.no_grad():
        single = digits.accuracy(model(test_x), test_y)
        with torch.backends.presil.flags(mode="rtl"), torch.presil.reports() as reports:
            lowered = compare(graph, (test_x,), 4)
            taken = reports.take()
        scores = lowered(test_x.to("presil")).cpu()
    assert len(taken) == 4 and all(r["cycles"] > 0 for r in taken)
    assert not lowered.report().floats_between
    int8 = digits.accuracy(scores, test_y)
    print(f"float32 {single:.2f} %, int8 {int8:.2f} %, cycles {sum(r['cycles'] for r in taken)}")
    assert single > 95 and abs(int8 - single) <= 0.5


def test_keywords():
    """MLPerf Tiny's network, narrower; its own size: nightly_keywords.py."""
    assert_keywords(keywords.DSCNN(channels=24, blocks=2), train=480, test=60, launches=6)


def assert_keywords(model, train, test, launches):
    x, y = keywords.spoken(train, 1)
    test_x, test_y = keywords.spoken(test, 2)
    model = digits.train(model, x, y, "cpu", epochs=15)
    graph = digits.quantize(model, x[:64])
    with torch.no_grad():
        single = digits.accuracy(model(test_x), test_y)
        lowered = compare(graph, (test_x,), launches)
        int8 = digits.accuracy(lowered(test_x.to("presil")).cpu(), test_y)
        with all_verified():
            lowered(test_x[:2].to("presil")).cpu()
    print(f"float32 {single:.2f} %, int8 {int8:.2f} %")
    assert lowered.report().launches_count() == launches and not lowered.report().floats_between
    assert single > 50 and abs(int8 - single) <= 200 / test  # two words
