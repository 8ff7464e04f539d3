// SPDX-License-Identifier: Apache-2.0
const total = data.total, clock = data.clock, names = data.names;
const time = cycles => clock ? seconds(cycles / clock.mhz / 1e6) : "";

// ---- colours: what works is one colour, standing for nothing to do is grey, every other cause has its own
const causes = names.causes.map(c => c.name);
const seen = causes.filter(c => Object.values(total.stalls).some(row => row[c]));
const working = new Set(names.causes.filter(c => c.works).map(c => c.name));
const colour = new Map();
seen.filter(c => !working.has(c)).forEach((c, i) => colour.set(c, `var(--c${i % 10})`));
working.forEach(c => colour.set(c, "var(--works)"));
const meaning = new Map(names.causes.map(c => [c.name, c.meaning]));
const words = name => name.replaceAll("_", " ");
const idle = engine => engine && !Object.keys(total.stalls[engine] || {}).some(c => working.has(c));
const engines = names.engines.map(e => e.name).filter(e => total.stalls[e] && !idle(e));
const array = (names.engines.find(e => e.array) || {}).name;
const ordered = row => seen.filter(c => row[c]).sort((a, b) => working.has(b) - working.has(a));
const key = (text, c, title) => {
  const element = make("span", {class: "key", title: title || ""}, make("i"), text);
  element.firstChild.style.setProperty("--c", c);
  return element;
};

const cycles = r => r.estimated ? `estimate ${number(r.cycles)} ± ${(100 * r.cycles_error).toFixed(1)} %`
  : number(r.cycles);
const unknown = r => r.bytes_known === false;
const bytes = (r, n) => unknown(r) ? "not estimated" : amount(n, "B");
const bound = r => !r.estimated ? r.bound || "" : r.stalls_error === null ? "not estimated"
  : r.bound ? `estimate ${r.bound}` : "";

// ---- head
function head() {
  at("title").textContent = `${data.model} · ${data.dtype} · ${data.chip}`;
  document.title = `${data.model} ${data.dtype} on ${data.chip}: ${cycles(total)} cycles`;
  const input = Array.isArray(data.input) ? data.input.join("×")
    : Object.entries(data.input).map(([name, sizes]) => `${name} ${sizes.join("×")}`).join(", ");
  at("facts").textContent = [`input ${input}`, `batch ${data.batch}`, `mode ${data.mode}`,
    `memory ${data.memory.model}`,
      clock ? `clock ${clock.mhz} MHz: ${clock.source}` : "no clock is known: cycles alone",
    data.traced ? "batch-norm folded, ReLU and residual adds fused" : "layers as they are, none fused",
    `simulated in ${seconds(data.sim_seconds)}`,
    ...(total.estimated ? [`${total.estimated} of ${total.launches} launches are estimates; ` +
      (total.stalls_error === null ? "their stalls and bounds are not estimated"
        : "their stalls and bounds are estimates, too: a cause is off by at most " +
          `${percent(total.stalls_error)} of the cycles in 95 of 100 launches`) +
      `; their bytes are ${total.bytes_known ? "exact, of the commands" : "not estimated"}`] : [])].join(" · ");
  if (data.problems.length) {
    at("problems").hidden = false;
    at("problems").append(make("b", {}, "This doesn't add up: don't rely on it."),
      make("ul", {}, ...data.problems.map(text => make("li", {}, text))));
  }
  const with_host = total.host_least_cycles;
  const tiles = [[cycles(total), "cycles on the chip" + (clock ? `, ${time(total.cycles)}` : "")]];
  if (total.images_per_second) {
    tiles.push([rate(total.images_per_second), "a second, if the host took no time"]);
    if (with_host !== null) tiles.push(["≤ " + rate(total.images_per_second_with_host),
      "a second, if the host did its part at the speed of the chip's bus"]);
  }
  if (total.utilization !== null) tiles.push([percent(total.utilization), "of the array's peak"]);
  if (total.roof_cycles) tiles.push([percent(total.roof_cycles / total.cycles), "of what roofline allows"]);
  tiles.push([bytes(total, total.read_bytes + total.write_bytes), "to and from memory"
    + (total.bus_share === null ? "" : `, ${percent(total.bus_share)} of the bus`)]);
  if (data.host.length) tiles.push([amount(total.host_bytes, "B"), "moved by the host"
    + (with_host ? `: ≥ ${number(with_host)} cycles of the bus` : "")]);
  at("tiles").append(...tiles.map(([value, text]) => make("div", {class: "tile"}, make("b", {}, value),
    make("span", {}, text))));
}

// ---- timeline: launches one after the other; what the host must move at least stands between them
const inside = data.host.filter(h => h.at !== null && h.least_cycles);
const timeline = {end: total.end, list: [...data.launches.map(l => ({launch: l, from: l.at, to: l.at + l.cycles})),
  ...inside.map(h => ({host: h, from: h.at, to: h.at + h.least_cycles}))]};
data.all = {...total, name: "all", line: null};
const memories = total.memories || [];
let view = {from: 0, to: Math.max(1, timeline.end)};
const layerOf = new Map();
data.layers.forEach((row, i) => { row.number = i; for (const n of row.numbers || []) layerOf.set(n, row); });
const nice = (span, most = 9) => {
  const step = 10 ** Math.floor(Math.log10(span));
  return [1, 2, 5, 10].map(f => f * step / 10).find(s => span / s <= most) || step;
};
function drawTimeline() {
  const width = Math.max(300, at("timeline").clientWidth), left = Math.min(90, width / 5), high = 26, gap = 8;
  const rows = ["launches", ...engines, ...(total.bus_share === null ? [] : ["bus"]),
    ...memories.map(m => m.name), ...(inside.length ? ["host"] : [])];
  const height = rows.length * (high + gap) + 30, span = view.to - view.from;
  const x = cycle => left + (cycle - view.from) / span * (width - left - 6);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "timeline"});
  const bottom = rows.length * (high + gap);
  const step = nice(span, Math.max(2, (width - left) / 75));
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    picture.append(svg("line", {x1: x(t), x2: x(t), y1: 0, y2: bottom, class: "grid"}),
      svg("text", {x: x(t), y: bottom + 14, "text-anchor": "middle"}, clock ? time(t) : short(t)));
  }
  rows.forEach((name, i) => picture.append(svg("text", {x: 0, y: i * (high + gap) + 17, class: "name"}, name)));
  const room = svg("svg", {x: left, y: 0, width: width - left - 6, height: bottom, overflow: "hidden"});
  const bar = (span, row, share, fill, text) => {
    const a = Math.max(0, x(span.from) - left), b = Math.min(width, x(span.to) - left);
    if (b < 0 || a > width || b - a <= 0) return;
    const y = row * (high + gap), h = Math.max(share > 0 ? 1 : 0, high * share);
    const edge = b - a > 3 ? .6 : 0;
    room.append(tip(svg("rect", {x: a, y: y + high - h, width: Math.max(.4, b - a - edge), height: h, fill,
      class: "mark"}), text));
    if (text.label && b - a > 7 * text.label.length + 8) {
      room.append(svg("text", {x: (a + b) / 2, y: y + 17, "text-anchor": "middle",
        style: "fill:#fff;pointer-events:none"},
        text.label));
    }
  };
  for (const s of timeline.list) {
    if (s.to < view.from || s.from > view.to) continue;
    if (s.host) {
      bar(s, rows.indexOf("host"), 1, "var(--host)", () => `${s.host.module} ${s.host.name}\n${s.host.why}\n` +
        `${amount(s.host.bytes, "B")}: at least ${number(s.host.least_cycles)} cycles of the bus`);
      continue;
    }
    const l = s.launch, row = layerOf.get(l.launch);
    const text = () => `${l.label}\n${cycles(l)} cycles ${time(l.cycles)}\n` +
      (l.peak ? `${percent(l.macs / l.peak / l.cycles)} of the array's peak\n` : "") +
      `${bytes(l, l.read_bytes)} read, ${bytes(l, l.write_bytes)} written` +
        (row && row.line ? `\n${row.line}` : "");
    text.label = l.label.split(".").slice(-2).join(".");
    bar(s, 0, 1, "var(--chip)", text);
    engines.forEach((e, i) => {
      const busy = Object.entries(l.stalls[e] || {}).filter(([c]) => working.has(c)).reduce((a, [, n]) => a + n, 0);
      bar(s, 1 + i, busy / l.cycles, "var(--works)", () => (l.estimated ? "estimate: " : "") +
        `${e} works ${percent(busy / l.cycles)} of ${l.label}\n` +
        Object.entries(l.stalls[e]).map(([c, n]) => `${words(c)} ${percent(n / l.cycles)}`).join("\n"));
    });
    if (total.bus_share !== null) {
      const rate = (l.read_bytes + l.write_bytes) / l.cycles;
      const taken = l.beats * data.bus.beat_bytes / l.cycles / data.bus.bytes_per_cycle;
      bar(s, rows.indexOf("bus"), Math.min(1, taken), "var(--bus)",
        () => `${percent(taken)} of the bus in ${l.label}: ${rate.toFixed(1)} bytes a cycle of ` +
          data.bus.bytes_per_cycle);
    }
  }
  for (const s of timeline.list) {
    if (!s.launch || s.to < view.from || s.from > view.to) continue;
    for (const m of s.launch.memories || []) held(room, s, m, rows.indexOf(m.name) * (high + gap), high,
      cycle => x(cycle) - left);
  }
  picture.append(room);
  picture.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey) return;  // else it scrolls the page
    event.preventDefault();
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : .8, (event.offsetX - left) / (width - left - 6));
  }, {passive: false});
  picture.addEventListener("pointerdown", down => {
    const start = {...view}, scale = span / (width - left - 6);
    const move = e => {
      if (Math.abs(e.clientX - down.clientX) < 3) return;
      show(start.from - (e.clientX - down.clientX) * scale, start.to - (e.clientX - down.clientX) * scale);
    };
    const up = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", up); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  });
  at("timeline").replaceChildren(picture);
  at("window").textContent = `${number(view.from)} … ${number(view.to)} cycles`;
}
// A launch's memory, command by command: when in the launch each of them began is not known.
function held(room, span, m, top, high, x) {
  const parts = m.in_use.length, at = i => x(span.from + (span.to - span.from) * i / parts).toFixed(2);
  const y = bytes => (top + high - high * bytes / m.capacity).toFixed(2);
  const d = m.in_use.map((bytes, i) => `V${y(bytes)}H${at(i + 1)}`).join("");
  const line = `M${at(0)} ${top + high}${d}V${top + high}Z`;
  room.append(tip(svg("path", {d: line, fill: "var(--c2)", class: "mark"}), () =>
    `${m.name} in ${span.launch.label}: at most ${amount(m.peak, "B")} of ${amount(m.capacity, "B")}, ` +
    `${percent(m.peak / m.capacity)}\non average ${percent(m.mean / m.capacity)} over ${number(m.steps)} commands` +
    (m.reserved ? `\nset aside: ${percent(m.reserved / m.capacity)}` : "")));
}
function show(from, to) {
  const span = Math.min(Math.max(1, timeline.end), Math.max(50, to - from));
  const begin = Math.max(0, Math.min(from, timeline.end - span));
  view = {from: begin, to: begin + span};
  drawTimeline();
}
function zoom(factor, where = .5) {
  const span = (view.to - view.from) * factor, fixed = view.from + (view.to - view.from) * where;
  show(fixed - span * where, fixed + span * (1 - where));
}

// ---- stall stacks
function stacked(list, width, high) {  // list: {name, parts: [[text, share of the width, fill, tip]], note}
  const left = Math.min(190, width * .38), note = 96, room = width - left - note;
  const picture = svg("svg", {viewBox: `0 0 ${width} ${list.length * (high + 4)}`, height: list.length * (high + 4)});
  list.forEach((row, i) => {
    const y = i * (high + 4), most = Math.floor(left / 7);
    const shown = row.name.length > most ? "…" + row.name.slice(1 - most) : row.name;
    picture.append(tip(svg("text", {x: 0, y: y + high / 2 + 4, class: "name"}, shown), () => row.name));
    let x = left;
    for (const [, share, fill, text] of row.parts) {
      picture.append(tip(svg("rect", {x, y, width: Math.max(0, share * room), height: high, fill, class: "part"}),
        text));
      x += share * room;
    }
    picture.append(svg("text", {x: x + 6, y: y + high / 2 + 4}, row.note));
  });
  return picture;
}
const parts = (stalls, of, scale, marked) => ordered(stalls).map(c => [c, stalls[c] / of * scale, colour.get(c),
  () => `${marked ? "estimate: " : ""}${words(c)}: ${number(stalls[c])} cycles, ${percent(stalls[c] / of)}` +
    (meaning.get(c) ? `\n${meaning.get(c)}` : "")]);
function drawEngines() {
  const width = at("engines").clientWidth;
  at("keys").replaceChildren(...[...seen].sort((a, b) => working.has(b) - working.has(a))
    .map(c => key(words(c), colour.get(c), meaning.get(c))));
  at("engines").replaceChildren(stacked(engines.map(e => ({name: e,
    parts: parts(total.stalls[e], total.cycles, 1, total.estimated),
    note: (total.estimated ? "estimate " : "") + percent(Object.entries(total.stalls[e]).filter(([c]) => working.has(c))
      .reduce((s, [, n]) => s + n, 0) / total.cycles) + " works"})), width, 24));
  const asleep = names.engines.map(e => e.name).filter(e => total.stalls[e] && idle(e));
  if (asleep.length) at("engines").append(make("p", {class: "dim"}, `Never worked: ${asleep.join(", ")}.`));
}
function drawStack() {
  const engine = at("engine").value, scaled = at("width").value === "cycles";
  const most = Math.max(...data.layers.map(r => r.cycles));
  at("stack").replaceChildren(stacked(data.layers.map(r => ({name: r.name,
    parts: parts(r.stalls[engine] || {}, r.cycles, scaled ? r.cycles / most : 1, r.estimated),
    note: amount(r.cycles, "")})), at("stack").clientWidth, 15));
}

// ---- roofline
function drawRoofline() {
  const width = Math.max(300, at("roofline").clientWidth), height = 380, left = 54, bottom = 40, right = 12;
  const rows = data.layers.filter(r => r.macs && r.read_bytes + r.write_bytes && r.cycles);
  if (!rows.length) { at("roofline").replaceChildren(make("p", {class: "dim"},
    "no layer has products and bytes")); return; }
  const intensity = r => r.macs / (r.read_bytes + r.write_bytes), speed = r => r.macs / r.cycles;
  const bus = data.roof.bus, peaks = data.roof.peaks, top = Math.max(...peaks, ...rows.map(speed));
  const ridge = bus ? top / bus : Math.max(...rows.map(intensity));
  const xs = [Math.min(...rows.map(intensity), ridge) / 2, Math.max(...rows.map(intensity), ridge) * 2.5];
  const ys = [Math.min(...rows.map(speed)) / 2, top * 1.7];
  const x = v => left + Math.log(v / xs[0]) / Math.log(xs[1] / xs[0]) * (width - left - right);
  const y = v => 8 + Math.log(ys[1] / v) / Math.log(ys[1] / ys[0]) * (height - bottom - 8);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "roofline"});
  const ticks = ([low, high]) => {
    const out = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
      for (const f of [1, 2, 5]) if (f * 10 ** e >= low && f * 10 ** e <= high) out.push(f * 10 ** e);
    }
    return out.length > 9 ? out.filter(v => Math.abs(Math.log10(v) % 1) < 1e-9) : out;
  };
  for (const t of ticks(xs)) picture.append(svg("line", {x1: x(t), x2: x(t), y1: 8, y2: height - bottom,
    class: "grid"}),
    svg("text", {x: x(t), y: height - bottom + 14, "text-anchor": "middle"}, short(t)));
  for (const t of ticks(ys)) picture.append(svg("line", {x1: left, x2: width - right, y1: y(t), y2: y(t),
    class: "grid"}),
    svg("text", {x: left - 6, y: y(t) + 4, "text-anchor": "end"}, short(t)));
  picture.append(svg("text", {x: (left + width) / 2, y: height - 6, "text-anchor": "middle"},
    "MACs a byte of memory traffic"),
    svg("text", {transform: `translate(11 ${height / 2 - 10}) rotate(-90)`, "text-anchor": "middle"},
      "MACs a cycle"));
  for (const peak of peaks) {
    const from = bus ? peak / bus : xs[0];
    const points = [...(bus ? [[Math.max(xs[0], ys[0] / bus), Math.max(xs[0], ys[0] / bus) * bus]] : []), [from,
      peak], [xs[1], peak]];
    picture.append(svg("polyline", {points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), fill: "none",
      stroke: "var(--roof)", "stroke-width": 1.6}),
      svg("text", {x: width - right - 4, y: y(peak) - 14, "text-anchor": "end", class: "name"},
        `${number(peak)} MACs a cycle`));
  }
  if (bus) {
    const a = Math.sqrt(Math.max(xs[0], ys[0] / bus) * ridge);
    const turn = Math.atan2(y(a * bus) - y(a * bus * 2), x(2 * a) - x(a)) * -180 / Math.PI;
    picture.append(svg("text", {transform: `translate(${x(a) - 5} ${y(a * bus) - 7}) rotate(${turn})`,
      "text-anchor": "middle", class: "name"}, `${bus} B a cycle`));
  }
  const most = Math.max(...rows.map(r => r.cycles));
  for (const r of [...rows].sort((a, b) => b.cycles - a.cycles)) {
    const roof = Math.min(...[...peaks.slice(-1), ...(bus ? [intensity(r) * bus] : [])]);
    const spot = svg("circle", {cx: x(intensity(r)), cy: y(speed(r)), r: 3.5 + 8 * Math.sqrt(r.cycles / most),
      fill: bus && intensity(r) < ridge ? "var(--bus)" : "var(--works)", "fill-opacity": .55, stroke: "var(--page)",
        class: "mark"});
    spot.addEventListener("click", () => choose(r));
    picture.append(tip(spot, () => `${r.name}\n${cycles(r)} cycles, ${percent(r.cycles / total.cycles)}\n` +
      `${intensity(r).toPrecision(3)} MACs a byte, ${speed(r).toPrecision(3)} MACs a cycle\n` +
      `${percent(speed(r) / roof)} of the roof`));
  }
  at("roofline").replaceChildren(picture);
  at("roof-note").textContent = "A spot a layer, its area the cycles" +
    (bus ? `; left of the ridge (${ridge.toPrecision(3)} `
    + `MACs a byte) the bus is the limit. Bus: ${data.bus.source}.` : ". The chip tells no width of its bus.");
}

// ---- tables
const place = line => line ? make("span", {title: line}, line.split("/").pop()) : "";
const longest = Math.max(1, ...data.layers.map(r => r.cycles));
function share(r, most = longest) {
  const bar = make("span", {class: "share"});
  bar.style.width = (4 * Math.min(1, r.cycles / most)).toFixed(2) + "em";
  return make("span", {}, r === data.all ? "" : bar, percent(r.cycles / total.cycles));
}
const columns = () => [
  {name: "layer", key: r => r.name, text: true},
  {name: "line", key: r => r.line || "", show: r => place(r.line), text: true},
  ...(data.layers.some(r => r.launches > 1) ? [{name: "launches", key: r => r.launches}] : []),
  {name: "MACs", key: r => r.macs, show: r => amount(r.macs, "")},
  {name: "cycles", key: r => r.cycles, show: cycles},
  {name: "share", key: r => r.cycles, show: r => share(r)},
  ...(total.utilization === null ? [] : [{name: "use", title: "of the array's peak", key: r => r.utilization,
    show: r => percent(r.utilization)}]),
  {name: "of roof", title: "least cycles by roofline ÷ cycles", key: r => r.roof_cycles / r.cycles,
    show: r => r.roof_cycles ? percent(r.roof_cycles / r.cycles) : ""},
  {name: "above roof", title: "cycles beyond the least by roofline", key: r => r.cycles - r.roof_cycles},
  {name: "read", key: r => r.read_bytes, show: r => bytes(r, r.read_bytes)},
  {name: "written", key: r => r.write_bytes, show: r => bytes(r, r.write_bytes)},
  ...(total.bus_share === null ? [] : [{name: "bus", key: r => r.bus_share, show: r => percent(r.bus_share)}]),
  ...memories.map(m => ({name: m.name, title: "at most in use, of its capacity",
    key: r => (r.memories || []).filter(o => o.name === m.name).map(o => o.peak / o.capacity)[0] ?? -1,
    show: r => (r.memories || []).filter(o => o.name === m.name).map(o => percent(o.peak / o.capacity))[0] ?? ""})),
  ...(array ? [{name: "bound", key: bound, text: true}] : []),
];
function drawLayers() {
  const text = at("q").value.toLowerCase();
  const rows = data.layers.filter(r =>
    !text || `${r.name} ${r.line || ""} ${r.bound || ""}`.toLowerCase().includes(text));
  rows.forEach(r => { r.anchor = "layer" + r.number; });
  table("layers", columns(), rows, data.all);
  at("shown").textContent = `${rows.length} of ${data.layers.length}`;
}
function choose(row) {
  at("q").value = "";
  drawLayers();
  const line = at("layer" + row.number);
  line.className = "chosen";
  line.scrollIntoView({block: "center", behavior: "smooth"});
}
const folded = new Set();
function drawTree() {
  const hidden = n => [...folded].some(p => n.path.startsWith(p + ".") || (p === "" && n.path !== ""));
  const parent = n => data.tree.some(o => o.path.startsWith(n.path + ".") || (n.path === "" && o.path));
  const fold = n => parent(n) ? make("button", {class: "fold", "aria-label": "fold", on: () => {
    if (!folded.delete(n.path)) folded.add(n.path);
    drawTree();
  }}, folded.has(n.path) ? "▸" : "▾") : make("span", {style: "display:inline-block;width:1.2em"});
  const name = n => make("span", {style: `padding-left:${1.1 * n.depth}em`}, fold(n), n.name);
  const boxes = n => [[name(n)], [number(n.launches), 1], [amount(n.macs, ""), 1], [cycles(n), 1], [share(n,
    total.cycles), 1],
    [percent(n.utilization), 1], [bytes(n, n.read_bytes), 1], [bytes(n, n.write_bytes), 1]];
  const head = ["module", "launches", "MACs", "cycles", "share", "use", "read", "written"];
  at("tree").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head.map((h, i) =>
    make("th", {class: i ? "n" : ""}, h)))), make("tbody", {}, ...data.tree.filter(n => !hidden(n)).map(n =>
    make("tr", {"data-path": n.path}, ...boxes(n).map(([v, right]) => make("td", {class: right ? "n" : ""}, v)))))));
}
// As the plans say, by tensor; what was read again is a part of its own.
const roles = [["weights", "var(--c0)"], ["activations", "var(--works)"], ["residual", "var(--c4)"],
  ["parameters", "var(--c5)"], ["results", "var(--c3)"], ["partial sums", "var(--c2)"], ["alignment", "var(--c6)"],
  ["commands", "var(--c7)"], ["other", "var(--c8)"]];
const meant = {parameters: "bias and scales", alignment: "beats that hold more than was asked for",
  commands: "what tells the chip what to do"};
function drawByTensor() {
  const colours = new Map(roles), of = row => row.read_bytes + row.write_bytes;
  const all = r => r.by_tensor.reduce((s, row) => s + of(row), 0), most = Math.max(1, ...data.layers.map(all));
  const again = r => r.by_tensor.reduce((s, row) => s + row.again_bytes, 0);
  const text = row => `${row.role} (${row.names.join(", ")}): ` + [[row.read_bytes, "read"],
    [row.again_bytes, "of them again"], [row.write_bytes, "written"]].filter(([n]) => n).map(([n, what]) =>
    `${amount(n, "B")} ${what}`).join(", ");
  at("traffic-keys").replaceChildren(...total.by_tensor.filter(of).map(row =>
    key(row.role + (row.apart ? ", counted apart" : ""), colours.get(row.role), meant[row.role])),
    ...(again(total) ? [key("read again", "var(--c1)")] : []));
  at("traffic").replaceChildren(stacked(data.layers.filter(r => r.by_tensor).map(r => ({name: r.name,
    note: amount(all(r), "B"), parts: [...r.by_tensor.map(row => [row.role, (of(row) - row.again_bytes) / most,
      colours.get(row.role), () => text(row)]), ["read again", again(r) / most, "var(--c1)", () => "read again\n" +
      r.by_tensor.filter(row => row.again_bytes).map(row => `${row.role}: ${amount(row.again_bytes, "B")}`).join("\n")]]
      .filter(part => part[1])})), at("traffic").clientWidth, 15));
  table("traffic-table", [{name: "tensor", key: r => r.role, text: true, title: "of all launches"},
    {name: "called", key: r => r.names.join(", "), text: true}, {name: "read", key: r => r.read_bytes,
      show: r => amount(r.read_bytes, "B")}, {name: "of them again", key: r => r.again_bytes,
      show: r => amount(r.again_bytes, "B")}, {name: "written", key: r => r.write_bytes,
      show: r => amount(r.write_bytes, "B")}], total.by_tensor);
  const partial = total.by_tensor.find(r => r.role === "partial sums"), apart = total.by_tensor.filter(r => r.apart);
  at("traffic-note").textContent = "What the launches' plans move, by tensor: " + (total.cycles
    ? "it adds up to the bytes that the bus counted" : "nothing was counted") + (apart.length
    ? `; ${apart.map(r => r.role).join(", ")} come on top of them` : "") + ". Read again: bytes that the same launch "
    + "had read before." + (partial && !of(partial) ? " No partial sum leaves the chip." : "");
}
function drawTraffic() {
  if (total.by_tensor) { drawByTensor(); return; }
  const kinds = [["weights", "weights", "var(--c0)"], ["activations", "activations", "var(--works)"],
    ["results", "results", "var(--c3)"], ["again",
      "read beyond its tensors: tiles that overlap or come back, commands, padding", "var(--c1)"],
    ["written_again", "written beyond its results: partial sums, padding", "var(--c2)"]];
  const moved = t => kinds.reduce((s, [k]) => s + t[k], 0) - t.unread - t.unwritten;
  const rows = data.layers, most = Math.max(...rows.map(r => kinds.reduce((s, [k]) => s + r.traffic[k], 0)), 1);
  at("traffic-keys").replaceChildren(...kinds.filter(([k]) => rows.some(r => r.traffic[k])).map(([k, text, c]) =>
    key(text, c)));
  at("traffic").replaceChildren(stacked(rows.map(r => ({name: r.name, note: amount(moved(r.traffic), "B"),
    parts: kinds.filter(([k]) => r.traffic[k]).map(([k, text, c]) => [k, r.traffic[k] / most, c,
      () => `${text}: ${amount(r.traffic[k], "B")}` + (r.traffic.unread && k === "activations"
        ? `\nof weights and activations ${amount(r.traffic.unread, "B")} are not read` : "")])})),
          at("traffic").clientWidth, 15));
  at("traffic-note").textContent = "What a layer's tensors hold, and what its launches read and wrote beyond that. " +
    "Which tensor was read again, this chip doesn't tell.";
}
const joules = pj => { // of picojoule
  for (const [limit, unit] of [[1e12, "J"], [1e9, "mJ"], [1e6, "µJ"], [1e3, "nJ"]]) {
    if (pj >= limit) return (pj / limit).toPrecision(3) + " " + unit;
  }
  return pj.toPrecision(3) + " pJ";
};
const spent = row => Object.values(row.energy).reduce((a, b) => a + b, 0);
function drawEnergy() {
  if (!total.energy) {
    at("energy-note").textContent = "No energy: it follows from beats, and the chip does not tell those of launches " +
      "that were estimated.";
    return;
  }
  const kinds = [["products", "products of the array", "var(--works)"],
    ["memory", "in and out of the chip's memory", "var(--c3)"], ["dram", "DRAM", "var(--c0)"]];
  const most = Math.max(1, ...data.layers.map(spent));
  at("energy-note").textContent = `${joules(spent(total))} a forward, by the constants below: they rank layers and ` +
    "designs, no more. Not in it: clock, leakage, operands inside the array, control, the host.";
  at("energy-keys").replaceChildren(...kinds.map(([k, text, c]) => key(`${text}: ${joules(total.energy[k])}`, c)));
  at("energy").replaceChildren(stacked(data.layers.map(r => ({name: r.name, note: joules(spent(r)),
    parts: kinds.map(([k, text, c]) => [k, r.energy[k] / most, c, () => `${text}: ${joules(r.energy[k])}`])})),
    at("energy").clientWidth, 15));
}
function drawProxies() {
  const unit = {energy: "pJ", area: "NAND2"};
  const shown = total.energy ? ["energy", "area"] : ["area"];
  const rows = shown.flatMap(what => Object.entries(data.proxies[what]).filter(([n]) => n !== "source")
    .map(([n, v]) => [`${what}: ${n}`, `${v} ${unit[what]}`, data.proxies[what].source]));
  const area = Object.entries(data.area || {}).map(([n, v]) => [`this chip: ${n}`, `${number(v)} NAND2`,
    "cells after elaboration × the constants"]);
  table("area", [{name: "what", key: r => r[0], text: true}, {name: "proxy", key: r => r[1]},
    {name: "from", key: r => r[2], text: true}], [...area, ...rows]);
}
function drawHost() {
  const known = total.host_least_cycles !== null;
  at("host-note").textContent = data.host.length ? "In simulated time the host takes none. It has to move its " +
    "operands and results all the same: bytes ÷ the chip's bus is the least that these operators would cost, one by " +
    "one as they are here"
    + (known ? "." : "; the bus is not known here.")
    : "Nothing: all of the model ran on the chip.";
  table("host", [{name: "operator", key: h => h.name, text: true}, {name: "module", key: h => h.module, text: true},
    {name: "line", key: h => h.line || "", show: h => place(h.line), text: true}, {name: "why", key: h => h.why,
      text: true},
    {name: "bytes", key: h => h.bytes, show: h => amount(h.bytes, "B")},
    ...(known ? [{name: "≥ cycles", key: h => h.least_cycles}] : []),
    {name: "here", title: "wall time of this machine", key: h => h.seconds, show: h => seconds(h.seconds)}],
      data.host);
}
function drawBatches() {
  if (data.batches.length < 2) return;
  at("batch-part").hidden = false;
  table("batches", [{name: "batch", key: b => b.batch}, {name: "latency, cycles", key: b => b.cycles, show: cycles},
    ...(clock ? [{name: "latency", key: b => b.seconds, show: b => seconds(b.seconds)},
      {name: "a second", key: b => b.images_per_second, show: b => rate(b.images_per_second)},
      {name: "with the host, ≤", key: b => b.images_per_second_with_host,
        show: b => rate(b.images_per_second_with_host)}] : []),
    {name: "use", key: b => b.utilization, show: b => percent(b.utilization)}], data.batches);
}
function drawChip() {
  const units = new Map((names.properties || []).map(p => [p.name, p.unit]));
  const rows = [...Object.entries(data.properties).map(([n, v]) => [n,
    (typeof v === "number" && v > 9999 ? number(v) : String(v))
    + (units.get(n) ? " " + units.get(n) : "")]), ...Object.entries(data.memory).map(([n, v]) => ["memory " + n,
      String(v)]),
    ...(data.bus ? [["bus", `${data.bus.bytes_per_cycle} bytes a cycle: ${data.bus.source}`]] : []),
    ...(clock ? [["clock", `${clock.mhz} MHz: ${clock.source}`]] : []), ...Object.entries(data.versions || {})];
  table("chip", [{name: "what", key: r => r[0], text: true}, {name: "value", key: r => r[1], text: true}],
    rows.filter(r => r[1] !== ""));
}

function draw() { drawTimeline(); drawEngines(); drawStack(); drawRoofline(); drawTraffic();
  drawEnergy(); }
head();
at("timeline-note").textContent = "One launch after the other. An engine's bar is as high as its share of " +
  "working cycles, the bus's " +
  "as that of its beats: a launch is as fine as the chip's counters are." + (memories.length
  ? " A memory's shape is what its launch holds, command by command: when each of them began isn't known." : "")
  + (inside.length && data.bus ? " The host's bars are the least that its bytes would take on the bus." : "") +
    " Drag to move; buttons or Ctrl and wheel to zoom.";
at("engine").append(...engines.map(e => make("option", {value: e}, e)));
if (array) at("engine").value = array;
for (const id of ["engine", "width"]) at(id).addEventListener("change", drawStack);
at("q").addEventListener("input", drawLayers);
at("in").addEventListener("click", () => zoom(.5));
at("out").addEventListener("click", () => zoom(2));
at("whole").addEventListener("click", () => show(0, timeline.end));
draw(); drawLayers(); drawTree(); drawProxies(); drawHost(); drawBatches(); drawChip();
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 80); });
