// Pictures of one answer: the simplex, the split of uncertainty.

import { el, percent, short, svg } from "./dom.js";

export function ternary(labels, draws, mean) {
  const side = 250, left = 60, top = 26, height = side * Math.sqrt(3) / 2;
  const corners = [[left, top + height], [left + side, top + height], [left + side / 2, top]];
  const place = (theta) => [0, 1].map((axis) => theta.reduce((sum, t, k) => sum + t * corners[k][axis], 0));
  const picture = svg("svg", { viewBox: `0 0 ${side + 2 * left} ${height + 74}`, width: 370, role: "img",
    "aria-label": `Posterior draws in a triangle whose corners are ${labels.join(", ")}` });
  for (const share of [0.25, 0.5, 0.75]) {
    for (let k = 0; k < 3; k += 1) {
      const a = [0, 0, 0], b = [0, 0, 0];
      a[k] = b[k] = share;
      a[(k + 1) % 3] = 1 - share;
      b[(k + 2) % 3] = 1 - share;
      const [x1, y1] = place(a), [x2, y2] = place(b);
      picture.append(svg("line", { x1, y1, x2, y2, class: "grid" }));
    }
  }
  picture.append(svg("path", { d: `M${corners.map((c) => c.join(" ")).join("L")}Z`, class: "frame" }));
  for (const theta of draws) {
    const [cx, cy] = place(theta);
    picture.append(svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 2.3, class: "draw" }));
  }
  const [mx, my] = place(mean);
  picture.append(svg("circle", { cx: mx, cy: my, r: 5.5, class: "mean" }));
  const spots = [[left - 55, top + height + 20, "start"], [left + side + 55, top + height + 40, "end"], [left + side / 2, top - 9, "middle"]];
  labels.forEach((label, k) => picture.append(
    svg("text", { x: spots[k][0], y: spots[k][1], "text-anchor": spots[k][2] }, short(label, 38))));
  return picture;
}

// More than three labels have no triangle: each label's share of the draws on a line of its own.
export function spread(labels, draws, mean) {
  const row = 30, left = 150, width = 200, height = row * labels.length + 26;
  const picture = svg("svg", { viewBox: `0 0 ${left + width + 28} ${height}`, width: left + width + 28, role: "img",
    "aria-label": "Posterior draws of each label's probability, with the middle 90 percent as a band" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const x = left + share * width;
    picture.append(svg("line", { x1: x, x2: x, y1: 4, y2: height - 20, class: "grid" }));
    if (share % 0.5 === 0) picture.append(svg("text", { x, y: height - 5, "text-anchor": "middle", class: "small" }, percent(share, 0)));
  }
  labels.forEach((label, k) => {
    const y = row * k + row / 2 + 2;
    const values = draws.map((d) => d[k]).sort((a, b) => a - b);
    picture.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, short(label, 20)));
    if (values.length) {
      const low = values[Math.floor(0.05 * values.length)], high = values[Math.floor(0.95 * (values.length - 1))];
      picture.append(svg("rect", { x: left + low * width, y: y - 8, width: Math.max(2, (high - low) * width), height: 16, rx: 4, class: "band" }));
      for (let i = 0; i < values.length; i += Math.ceil(values.length / 40)) {
        picture.append(svg("circle", { cx: (left + values[i] * width).toFixed(1), cy: y, r: 2, class: "draw" }));
      }
    }
    picture.append(svg("circle", { cx: left + mean[k] * width, cy: y, r: 4.5, class: "mean" }));
  });
  return picture;
}

export function split(second, labels) {
  const most = Math.log2(labels);
  const bar = el("div", { class: "split-bar", role: "img",
    "aria-label": `Aleatoric ${second.aleatoric_bits.toFixed(2)} bits, epistemic ${second.epistemic_bits.toFixed(2)} bits` });
  for (const [kind, value] of [["a", second.aleatoric_bits], ["e", second.epistemic_bits]]) {
    const part = el("div", { class: kind });
    part.style.width = `${Math.max(0, 100 * value / most)}%`;
    bar.append(part);
  }
  const key = el("div", { class: "split-key" },
    el("span", {}, el("span", { class: "dot a" }), "aleatoric ", el("b", {}, `${second.aleatoric_bits.toFixed(2)} bits`)),
    el("span", {}, el("span", { class: "dot e" }), "epistemic ", el("b", {}, `${second.epistemic_bits.toFixed(3)} bits`)),
    el("span", {}, `full bar: ${most.toFixed(2)} bits, all labels equally probable`));
  return [bar, key];
}
