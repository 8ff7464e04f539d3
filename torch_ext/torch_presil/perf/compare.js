// SPDX-License-Identifier: Apache-2.0
const signed = n => (n > 0 ? "+" : n < 0 ? "−" : "") + number(Math.abs(n));
const shown = v => v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v);
const total = data.total;
at("title").textContent = data.files.join(" → ");
document.title = `${signed(total.change)} cycles: ${data.files.join(" → ")}`;
if (data.problems.length) {
  at("problems").hidden = false;
  at("problems").append(make("b", {}, "This doesn't add up: don't rely on it."),
    make("ul", {}, ...data.problems.map(text => make("li", {}, text))));
}
const pair = ([a, b], show) => `${show(a)} → ${show(b)}`;
const relative = r => r.cycles[0] ? 100 * r.change / r.cycles[0] : null;
const part = r => relative(r) === null ? "" : (r.change > 0 ? "+" : "") + relative(r).toFixed(2) + " %";
const tiles = [[signed(total.change), `cycles, ${part(total)}`], [pair(total.cycles, number), "cycles"]];
if (total.images_per_second[0] && total.images_per_second[1]) {
  tiles.push([pair(total.images_per_second, rate), "a second, if the host took no time"]);
}
if (total.utilization[0] !== null && total.utilization[1] !== null) {
  tiles.push([pair(total.utilization, percent), "of the array's peak"]);
}
tiles.push([pair([0, 1].map(i => total.read_bytes[i] + total.write_bytes[i]), n => amount(n, "B")),
  "of memory traffic"]);
at("tiles").append(...tiles.map(([value, text]) => make("div", {class: "tile"}, make("b", {}, value),
  make("span", {}, text))));
table("facts", [{name: "what", key: r => r[0], text: true}, {name: "before", key: r => shown(r[1][0]), text: true},
  {name: "after", key: r => shown(r[1][1]), text: true}], Object.entries(data.facts));

const most = Math.max(1, ...data.layers.map(r => Math.abs(r.change)));
function bar(n, of) {
  const picture = svg("svg", {viewBox: "0 0 120 12", style: "width:120px;height:12px;display:inline-block"});
  const width = 58 * Math.abs(n) / of;
  picture.append(svg("rect", {x: n < 0 ? 60 - width : 60, y: 1, width, height: 10,
    fill: n < 0 ? "var(--bus)" : "var(--bad)"}), svg("line", {x1: 60, x2: 60, y1: 0, y2: 12, stroke: "var(--roof)"}));
  return picture;
}
function drawLayers() {
  const text = at("q").value.toLowerCase();
  const rows = data.layers.filter(r => (r.changed || at("all").checked) &&
    (!text || `${r.name} ${r.why}`.toLowerCase().includes(text)));
  table("layers", [
    {name: "layer", key: r => r.name, text: true}, {name: "before", key: r => r.cycles[0]},
    {name: "after", key: r => r.cycles[1]}, {name: "change", key: r => r.change, show: r => signed(r.change)},
    {name: "", key: r => r.change, show: r => bar(r.change, most), text: true},
    {name: "%", key: relative, show: part}, {name: "cause of the change", key: r => r.why, text: true},
    {name: "bytes", key: r => (r.read_bytes[1] + r.write_bytes[1]) - (r.read_bytes[0] + r.write_bytes[0]),
      show: r => pair([0, 1].map(i => r.read_bytes[i] === null ? null : r.read_bytes[i] + r.write_bytes[i]),
        n => n === null ? "–" : amount(n, "B"))},
    {name: "use", key: r => r.utilization[1],
      show: r => pair(r.utilization, n => n === null ? "–" : percent(n))},
  ], rows, {...total, why: ""});
  at("shown").textContent = `${rows.length} of ${data.layers.length}`;
}
const sums = {};
for (const r of data.layers) for (const [engine, causes] of Object.entries(r.causes)) {
  for (const [cause, n] of Object.entries(causes)) sums[engine + " " + cause] = (sums[engine + " " + cause] || 0) + n;
}
const largest = Math.max(1, ...Object.values(sums).map(Math.abs));
table("causes", [{name: "engine and cause", key: r => r[0].replaceAll("_", " "), text: true},
  {name: "change", key: r => r[1], show: r => signed(r[1])},
  {name: "", key: r => r[1], show: r => bar(r[1], largest), text: true},
  {name: "meaning", key: r => data.names.causes[r[0].split(" ")[1]] || "", text: true}],
  Object.entries(sums).filter(r => r[1]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])));
at("q").addEventListener("input", drawLayers);
at("all").addEventListener("change", drawLayers);
drawLayers();
