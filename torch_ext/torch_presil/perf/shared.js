// SPDX-License-Identifier: Apache-2.0
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const number = n => n === null || n === undefined ? "" : Math.round(n).toLocaleString("en-US");
const percent = n => Number.isFinite(n) ? (100 * n).toFixed(1) + " %" : "";
function amount(n, unit) {  // 1234567 → "1.23 M"
  if (n === null || n === undefined) return "";
  for (const [limit, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(n) >= limit) return (n / limit).toPrecision(3) + " " + prefix + unit;
  }
  return (Number.isInteger(n) ? n : n.toPrecision(3)) + (unit ? " " + unit : "");
}
const short = n => amount(n, "").replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/,
  "").trim();  // "1.00 k" → "1 k"
const rate = n => n === null || n === undefined ? "" : n >= 1000 ? number(n) : n.toPrecision(4);
function seconds(s) {
  for (const [limit, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (s >= limit) return (s / limit).toPrecision(3) + " " + unit;
  }
  return s ? (s / 1e-9).toPrecision(3) + " ns" : "0 s";
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") element.addEventListener("click", value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter(c => c !== null && c !== undefined && c !== ""));
  return element;
}
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function tip(element, text) {
  const place = event => {
    const box = at("tip");
    box.textContent = text();
    box.style.display = "block";
    const left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
    const below = event.clientY + 16 + box.offsetHeight < innerHeight;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = (below ? event.clientY + 16 : event.clientY - box.offsetHeight - 10) + "px";
  };
  element.addEventListener("pointermove", place);
  element.addEventListener("pointerdown", place);
  element.addEventListener("pointerleave", () => { at("tip").style.display = "none"; });
  return element;
}

// ---- tables that sort by a click; the order is kept
const orders = {};
function table(id, columns, rows, last) {
  const target = at(id), order = orders[id];
  target.replaceChildren();
  if (!rows.length) { target.append(make("p", {class: "dim"}, "none")); return; }
  if (order) {
    const by = columns[order.column].key;
    const compare = (a, b) =>
      typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    rows = [...rows].sort((a, b) => order.direction * compare(by(a) ?? -Infinity, by(b) ?? -Infinity));
  }
  const head = columns.map((c, i) => make("th", {class: c.text ? "" : "n", title: c.title || "",
    "data-order": order && order.column === i ? order.direction : null, on: () => {
      orders[id] = {column: i, direction: order && order.column === i ? -order.direction : c.text ? 1 : -1};
      table(id, columns, rows, last);
    }}, c.name));
  const line = (row, kind) => make("tr", {class: kind, id: row.anchor || null}, ...columns.map(c => {
    const value = (c.show || c.key)(row);
    return make("td", {class: c.text ? "" : "n"}, typeof value === "number" ? number(value) : value);
  }));
  target.append(make("table", {}, make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map(row => line(row, "")), ...(last ? [line(last, "total")] : []))));
}

