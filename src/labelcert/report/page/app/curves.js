// Curves over the budget, drawn by uPlot: steps, since nothing lies between whole budgets.

const DASHES = [[], [8, 5], [2, 4], [10, 4, 2, 4]];

// lines: [{ name, x: [..], low: [..], high: [..], colour(), dash, ghost, points }] in per cent; a band spans what is open.
class Curves {
  constructor(place, { title, xLabel, yLabel = "predictions that survive (%)", lines, chosen = null, choose = null, height = 260, steps = true }) {
    Object.assign(this, { place, title, xLabel, yLabel, lines, chosen, steps });
    const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    this.x = x;
    const at = new Map(x.map((value, k) => [value, k]));
    const spread = (line, values) => {
      const column = new Array(x.length).fill(null);
      line.x.forEach((value, k) => { column[at.get(value)] = values[k]; });
      return column;
    };
    const data = [x], series = [{}], bands = [];
    const paths = steps ? uPlot.paths.stepped({ align: 1 }) : undefined;
    lines.forEach((line) => {
      const open = line.low.some((value, k) => value !== line.high[k]);
      series.push({ label: line.name, stroke: line.colour, width: line.ghost ? 1 : 2, dash: line.dash, spanGaps: true, paths,
        points: { show: !line.ghost && x.length < 60, size: 6, fill: line.colour } });
      data.push(spread(line, line.low));
      if (open) {
        bands.push({ series: [series.length, series.length - 1], fill: () => `${line.colour()}33` });
        series.push({ label: `${line.name}, not excluded`, stroke: line.colour, width: 1, dash: [2, 3], spanGaps: true, paths,
          points: { show: false } });
        data.push(spread(line, line.high));
      }
    });
    const ink = () => colour("ink"), rule = () => colour("rule");
    const font = "13px system-ui, sans-serif";
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 }, font, labelFont: font };
    const line = (u) => {
      const b = chosen && chosen();
      if (b === null || b === undefined) return;
      const left = Math.round(u.valToPos(b, "x", true));
      u.ctx.save();
      u.ctx.strokeStyle = colour("accent");
      u.ctx.lineWidth = 2 * devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.moveTo(left, u.bbox.top);
      u.ctx.lineTo(left, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
      u.ctx.restore();
    };
    const last = x[x.length - 1];
    this.chart = new uPlot({
      width: Math.max(240, place.clientWidth), height, title,
      scales: { x: { time: false, range: [Math.min(0, x[0]), Math.max(last, 1)] }, y: { range: [0, 103] } },
      axes: [{ ...axis, label: xLabel, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
        { ...axis, label: yLabel, size: 56 }],
      series, bands, legend: { show: true, live: false }, cursor: { y: false, drag: { x: false, y: false } },
      hooks: { draw: [line], setCursor: [(u) => this.read(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null)] },
    }, data, place);
    this.chart.over.addEventListener("click", (event) => choose && choose(this.nearest(this.chart.posToVal(event.offsetX, "x"))));
    this.chart.root.setAttribute("role", "img");
    this.chart.root.setAttribute("aria-label", `${title}. The values stand below it.`);
    this.readout = make("p", { className: "readout muted" });
    this.tools = exporter(title, { rows: () => this.rows(), svg: () => this.svg() });
    place.append(this.readout, this.tools);
    this.read(null);
  }
  nearest(wanted) { return this.x.reduce((best, value) => (Math.abs(value - wanted) < Math.abs(best - wanted) ? value : best)); }
  // The values under the pointer, or at the chosen budget.
  read(wanted) {
    if (!this.readout) return;
    const x = this.nearest(wanted ?? (this.chosen && this.chosen()) ?? this.x[0]);
    this.readout.textContent = `${this.xLabel.replace(/ \(.*/, "")} ${x}: ` + this.lines.map((line) => {
      const k = line.x.indexOf(x);
      return k < 0 ? null : `${line.name} ${percents(line.low[k], line.high[k])}`;
    }).filter((text) => text).join("; ");
  }
  rows() {
    return [[this.xLabel, ...this.lines.flatMap((line) => [`${line.name} (%)`, `${line.name}, not excluded (%)`])],
      ...this.x.map((x) => [`${x}`, ...this.lines.flatMap((line) => { const k = line.x.indexOf(x); return k < 0 ? ["", ""] : [line.low[k].toFixed(3), line.high[k].toFixed(3)]; })])];
  }
  svg() {
    const [width, height, left, bottom, top] = [720, 400, 60, 90, 40], last = Math.max(1, this.x[this.x.length - 1]), first = Math.min(0, this.x[0]);
    const px = (x) => left + ((width - left - 20) * (x - first)) / (last - first), py = (y) => top + ((height - top - bottom) * (100 - y)) / 100;
    const path = (line, values) => values.map((y, k) => (k === 0 ? `M${px(line.x[0])},${py(y)}` : `${this.steps ? `H${px(line.x[k])}V${py(y)}` : `L${px(line.x[k])},${py(y)}`}`)).join("");
    const every = Math.ceil((last - first) / 12);
    return svgPage(width, height, this.title, [
      svgText(width / 2, 22, this.title, { "text-anchor": "middle", "font-weight": 600 }),
      ...[0, 25, 50, 75, 100].map((y) => tag("path", { d: `M${left},${py(y)}H${width - 20}`, stroke: colour("rule") }) + svgText(left - 8, py(y) + 4, y, { "text-anchor": "end" })),
      ...this.x.filter((x) => (x - first) % every === 0).map((x) => svgText(px(x), height - bottom + 20, x, { "text-anchor": "middle" })),
      svgText(width / 2, height - bottom + 40, this.xLabel, { "text-anchor": "middle" }),
      svgText(16, (height - bottom + top) / 2, this.yLabel, { "text-anchor": "middle", transform: `rotate(-90 16 ${(height - bottom + top) / 2})` }),
      ...this.lines.flatMap((line, k) => [line.low, ...(line.low.some((y, j) => y !== line.high[j]) ? [line.high] : [])].map((values, j) =>
        tag("path", { d: path(line, values), fill: "none", stroke: line.colour(), "stroke-width": j || line.ghost ? 1 : 2, "stroke-dasharray": (j ? [2, 3] : line.dash ?? []).join(" ") }))),
      ...this.lines.map((line, k) => tag("path", { d: `M${left + (k % 3) * 210},${height - 32 + 18 * Math.floor(k / 3)}h24`, stroke: line.colour(), "stroke-width": 2, "stroke-dasharray": (line.dash ?? []).join(" ") })
        + svgText(left + 30 + (k % 3) * 210, height - 28 + 18 * Math.floor(k / 3), line.name)),
    ]);
  }
  resize() {
    const width = Math.max(240, this.place.clientWidth);
    if (Math.abs(width - this.chart.width) > 1) this.chart.setSize({ width, height: this.chart.height });
  }
  redraw(paths = false) { this.chart.redraw(paths); this.read(null); }
  remove() { this.chart.destroy(); this.readout.remove(); this.tools.remove(); }
}
const percents = (low, high) => between(low, high, 100);

const drawn = new Set();
new ResizeObserver(() => drawn.forEach((curves) => curves.resize())).observe(document.body);

function replaceCurves(before, place, options) {
  if (before) { drawn.delete(before); before.remove(); }
  const curves = new Curves(place, options);
  drawn.add(curves);
  return curves;
}

const budgets = (model, last = model.lastFlips) => Array.from({ length: last + 1 }, (_, b) => b);
const percent = (model, counts) => counts.map((value) => (100 * value) / model.n);
const aloneLine = (model, name, ink, dash, last) => ({
  name, colour: ink, dash, x: budgets(model, last),
  low: percent(model, budgets(model, last).map((b) => safe(model, b))),
  high: percent(model, budgets(model, last).map((b) => notLost(model, b))),
});
const togetherLine = (model, name, ink, dash, last) => ({
  name, colour: ink, dash, x: budgets(model, last),
  low: percent(model, budgets(model, last).map((b) => model.n - model.curve.upper[b])),
  high: percent(model, budgets(model, last).map((b) => model.n - model.curve.lower[b])),
});
const budgetLabel = (model) => (model.unit === "cost units" ? "cost units of the attack"
  : `${model.words[1]} (of ${model.unit === "annotators" && model.crowd ? model.crowd.names.length : model.m})`);
