// A table that is sorted by its headings, searched by its section, and shown a page at a time.

class PagedTable {
  // columns: [{ title, cell(k), key(k), numeric, hint, minor }]; rows(): which k to show; pick(k): what a click does; point(k): what a pointer does.
  // Where there is little room, minor columns are left out, and where there is less, small ones.
  constructor(place, { caption, columns, rows, pick = null, point = null, chosen = () => null, sort = [0, 1], size = 15 }) {
    Object.assign(this, { columns, rows, pick, point, chosen, size, page: 0, sorted: sort });
    this.body = make("tbody");
    this.heads = columns.map((column, c) => {
      const button = make("button", { type: "button", title: column.hint, onclick: () => this.sortBy(c) }, column.title);
      return make("th", { scope: "col", className: classOf(column) }, button);
    });
    this.note = make("span");
    const turn = (text, label, step) =>
      make("button", { type: "button", "aria-label": label, onclick: () => this.turn(step) }, text);
    this.pager = make("div", { className: "pager" }, turn("‹ previous", "previous page", -1), this.note,
      turn("next ›", "next page", 1));
    const table = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, this.heads)), this.body);
    fill(place, make("div", { className: "scrolled", tabindex: 0, role: "group", "aria-label": caption }, table), this.pager,
      exporter(caption, { rows: () => [columns.map((column) => column.title), ...this.order().map((k) => columns.map((column) => column.cell(k)))] }));
  }
  sortBy(c) {
    const [before, direction] = this.sorted;
    this.sorted = [c, before === c ? -direction : this.columns[c].numeric ? -1 : 1];
    this.page = 0;
    this.draw();
  }
  turn(step) {
    this.page += step;
    this.draw();
  }
  order() {
    const [c, direction] = this.sorted;
    const { key } = this.columns[c];
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    return this.rows().map((k) => [key(k), k]).sort((a, b) => direction * compare(a[0], b[0]) || a[1] - b[1]).map(([, k]) => k);
  }
  show(k) {
    const at = this.order().indexOf(k);
    if (at >= 0) this.page = Math.floor(at / this.size);
    this.draw();
  }
  draw() {
    const order = this.order();
    const pages = Math.max(1, Math.ceil(order.length / this.size));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const shown = order.slice(this.page * this.size, (this.page + 1) * this.size);
    this.heads.forEach((head, c) =>
      head.setAttribute("aria-sort", this.sorted[0] !== c ? "none" : this.sorted[1] > 0 ? "ascending" : "descending"));
    const chosen = this.chosen();
    const row = this.body.contains(document.activeElement) ? document.activeElement.closest("tr") : null;
    const held = row && [row.dataset.row, [...row.querySelectorAll("button, input")].indexOf(document.activeElement)];
    fill(this.body, shown.map((k) =>
      make("tr", { className: k === chosen ? "chosen" : null, "data-row": k,
        onmouseenter: this.point && (() => this.point(k)), onmouseleave: this.point && (() => this.point(null)),
        onclick: this.pick && ((event) => { if (!event.target.closest("input")) this.pick(k); }) },
        this.columns.map((column, c) => {
          const content = column.cell(k);
          if (c === 0) {
            const name = this.pick
              ? make("button", { type: "button", className: "link", "aria-pressed": k === chosen ? "true" : "false" }, content)
              : content;
            return make("th", { scope: "row" }, name);
          }
          return make("td", { className: classOf(column) }, content);
        }))));
    if (held) this.body.querySelectorAll(`tr[data-row="${held[0]}"] :is(button, input)`)[held[1]]?.focus();
    const [first, last] = this.pager.querySelectorAll("button");
    first.disabled = this.page === 0;
    last.disabled = this.page === pages - 1;
    this.pager.classList.toggle("single", pages === 1);
    const from = this.page * this.size;
    this.note.textContent = order.length ? `${number(from + 1)} to ${number(from + shown.length)} of ${number(order.length)}` : "no rows";
  }
}

const classOf = (column) => [column.numeric && "numeric", column.minor].filter((word) => word).join(" ") || null;

// A small table of fixed rows.
function plainTable(caption, heads, rows, numericFrom = 1, saved = () => [heads, ...rows]) {
  const numeric = (c) => (c >= numericFrom ? "numeric" : null);
  return make("div", {}, make("div", { className: "scrolled", tabindex: 0, role: "group", "aria-label": caption },
    make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head, c) => make("th", { scope: "col", className: numeric(c) }, head)))),
      make("tbody", {}, rows.map((row) =>
        make("tr", {}, row.map((cell, c) =>
          c === 0 ? make("th", { scope: "row" }, cell) : make("td", { className: numeric(c) }, cell))))))), exporter(caption, { rows: saved }));
}
