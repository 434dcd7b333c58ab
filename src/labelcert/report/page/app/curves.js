// Curves over the budget, drawn by uPlot.

const DASHES = [[], [8, 5], [2, 4], [10, 4, 2, 4]];

// lines: [{ name, x: [..], low: [..], high: [..], colour(), dash }] in per cent; a band spans what is open.
class Curves {
  constructor(place, { title, xLabel, yLabel = "predictions that survive (%)", lines, chosen = null, choose = null, height = 260 }) {
    this.place = place;
    const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const at = new Map(x.map((value, k) => [value, k]));
    const spread = (line, values) => {
      const column = new Array(x.length).fill(null);
      line.x.forEach((value, k) => { column[at.get(value)] = values[k]; });
      return column;
    };
    const data = [x], series = [{}], bands = [];
    lines.forEach((line) => {
      const open = line.low.some((value, k) => value !== line.high[k]);
      series.push({ label: line.name, stroke: line.colour, width: 2, dash: line.dash, spanGaps: true,
        points: { show: x.length < 60, size: 6, fill: line.colour } });
      data.push(spread(line, line.low));
      if (open) {
        bands.push({ series: [series.length, series.length - 1], fill: () => `${line.colour()}33` });
        series.push({ label: `${line.name}, not excluded`, stroke: line.colour, width: 1, dash: [2, 3], spanGaps: true,
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
      hooks: { draw: [line] },
    }, data, place);
    this.chart.over.addEventListener("click", (event) => {
      if (!choose) return;
      const wanted = this.chart.posToVal(event.offsetX, "x");
      choose(x.reduce((best, value) => (Math.abs(value - wanted) < Math.abs(best - wanted) ? value : best)));
    });
    this.chart.root.setAttribute("role", "img");
    this.chart.root.setAttribute("aria-label", `${title}. The numbers are in the table below.`);
  }
  resize() {
    const width = Math.max(240, this.place.clientWidth);
    if (Math.abs(width - this.chart.width) > 1) this.chart.setSize({ width, height: this.chart.height });
  }
  redraw(paths = false) { this.chart.redraw(paths); }
  remove() { this.chart.destroy(); }
}

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
  : `${UNITS[model.unit][1]} (of ${model.unit === "annotators" ? model.crowd && model.crowd.names.length : model.m})`);
