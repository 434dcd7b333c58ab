// Puts the page together.

const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

function theme(name) {
  const root = document.documentElement;
  if (name === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", name);
  byId("theme").textContent = THEMES[name];
  byId("theme").dataset.theme = name;
  repaint();
}

function repaint() {
  inks.clear();
  drawn.forEach((curves) => curves.redraw(true));
  if (graphView.view && current().around) graphView.paint();
}

byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(byId("theme").dataset.theme) + 1) % names.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
let before = "auto";
const PRINTED_ROWS = 20;
const tables = () => (DATA.study ? [] : [nodes.table, labels.table, crowd.table].filter((table) => table));
addEventListener("beforeprint", () => {
  before = byId("theme").dataset.theme;
  // The graph is painted frame by frame, too late for paper: its picture is turned from dark to light there.
  document.documentElement.dataset.printing = getComputedStyle(document.documentElement).colorScheme;
  theme("light");
  tables().forEach((table) => { [table.usual, table.size] = [table.size, PRINTED_ROWS]; table.draw(); });
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.printing;
  theme(before);
  tables().forEach((table) => { table.size = table.usual; table.draw(); });
});

if (DATA.study) showStudy(DATA.study);
else {
  for (const section of sections) section.start();
  address.read();
}
document.documentElement.dataset.ready = "yes";
performance.mark("labelcert-ready");
