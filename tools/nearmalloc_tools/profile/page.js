"use strict";
// The flame graph: a frame's width is its share of the bytes; calls go downward.
const data = JSON.parse(document.getElementById("data").textContent);
const flame = document.getElementById("flame");
const selected = document.getElementById("selected");
const buttons = [...document.querySelectorAll("#choose button")];
const rowHeight = 20;
let measure = 0;
let path = [data.tree]; // from the root to the frame that is shown alone

function amount(bytes) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (bytes < 1024) return `${unit === "B" ? bytes : bytes.toFixed(1)} ${unit}`;
    bytes /= 1024;
  }
  return `${bytes.toFixed(1)} GiB`;
}

function hue(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 997;
  return 15 + (hash / 997) * 40;
}

function describe(node) {
  const all = data.tree.v[measure] || 1;
  const bytes = node.v[measure];
  return `${node.n}: ${amount(bytes)}, ${((100 * bytes) / all).toFixed(1)} %`;
}

function add(node, left, width, depth, way) {
  const box = document.createElement("button");
  box.type = "button";
  box.textContent = node.s ?? node.n;
  box.title = describe(node);
  box.style.left = `${left}%`;
  box.style.width = `${width}%`;
  box.style.top = `${depth * rowHeight}px`;
  box.style.background = `hsl(${hue(node.n)} 75% 68%)`;
  box.addEventListener("click", () => { path = way; draw(); });
  flame.append(box);
}

// Returns the deepest row that was drawn.
function drawBelow(node, left, width, depth, way) {
  add(node, left, width, depth, way);
  let deepest = depth;
  let at = left;
  const whole = node.v[measure];
  const children = [...node.c].sort((a, b) => b.v[measure] - a.v[measure]);
  for (const child of children) {
    const part = whole > 0 ? (width * child.v[measure]) / whole : 0;
    if (part < 0.1) continue;
    deepest = Math.max(deepest, drawBelow(child, at, part, depth + 1, [...way, child]));
    at += part;
  }
  return deepest;
}

function draw() {
  flame.replaceChildren();
  const last = path.length - 1;
  path.slice(0, last).forEach((node, depth) => add(node, 0, 100, depth, path.slice(0, depth + 1)));
  const deepest = drawBelow(path[last], 0, 100, last, path);
  flame.style.height = `${(deepest + 1) * rowHeight}px`;
  selected.textContent = describe(path[last]);
  buttons.forEach((button, index) => {
    button.setAttribute("aria-pressed", String(index === measure));
  });
}

buttons.forEach((button, index) => {
  button.addEventListener("click", () => { measure = index; draw(); });
});
measure = data.tree.v[0] > 0 ? 0 : 2;
draw();
