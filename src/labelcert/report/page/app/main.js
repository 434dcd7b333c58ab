// Puts the page together.

const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

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
addEventListener("beforeprint", () => { before = byId("theme").dataset.theme; theme("light"); });
addEventListener("afterprint", () => theme(before));

if (DATA.study) showStudy(DATA.study);
else {
  for (const section of sections) section.start();
  state.model = -1;
  state.budget = DATA.budget;
  set({ model: 0 });
}
document.documentElement.dataset.ready = "yes";
performance.mark("labelcert-ready");
