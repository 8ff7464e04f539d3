# SPDX-License-Identifier: Apache-2.0
"""sim/trim.py takes the second evaluation of input logic only where that changes nothing: a latch that is open while
clk is low may read clk, nothing else may."""

import runpy

import pytest
from bench.built import ROOT

MODEL = """void Vchip___024root___ico_sequent__TOP__0(Vchip___024root* vlSelf) {{
    vlSelfRef.asked = vlSelfRef.s_valid;
{logic}}}
void Vchip___024root___eval(Vchip___024root* vlSelf) {{
    vlSelfRef.__VicoFirstIteration = 1U;
    do {{
        vlSelfRef.__VicoPhaseResult = Vchip___024root___eval_phase__ico(vlSelf);
    }} while (vlSelfRef.__VicoPhaseResult);
}}
"""
LOW = """    if ((1U & (~ (IData)(vlSelfRef.clk)))) {
        vlSelfRef.open = vlSelfRef.asked;
    }"""
LOGIC = {
    "none": ("", "once"),
    "latch": (f"{LOW}\n", "once"),
    "two latches": (f"{LOW}\n{LOW}\n", "once"),
    "latch and more": (f"{LOW}\n    vlSelfRef.gclk = vlSelfRef.clk;\n", "twice"),
    "either": (f"{LOW} else {{\n        vlSelfRef.other = vlSelfRef.asked;\n    }}\n", "twice"),
    "high": ("    if (vlSelfRef.clk) {\n        vlSelfRef.open = vlSelfRef.asked;\n    }\n", "twice"),
}


@pytest.mark.parametrize("name", LOGIC)
def test_input_logic(name, tmp_path, capsys):
    logic, times = LOGIC[name]
    source = tmp_path / "Vchip___024root__0.cpp"
    source.write_text(MODEL.format(logic=logic))
    for header in ("Vchip__pch.h", "Vchip___024root.h"):
        (tmp_path / header).write_text("#endif  // guard\n")
    runpy.run_path(str(ROOT / "sim" / "trim.py"))["main"](tmp_path)
    assert f"input logic {times} a cycle" in capsys.readouterr().out
    assert ("if (!vlSelfRef.clk) do {" in source.read_text()) == (times == "once")
