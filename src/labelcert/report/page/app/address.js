// The view as part of the address, such as #b=2&model=sgc&node=27&verified=573,998: a link shows what its sender saw.

const address = {
  on: ["model", "budget", "node", "trust", "only"],
  start() {
    addEventListener("hashchange", () => { if (location.hash !== this.written) this.read(); });
    // Links within the page move it, and leave the view in the address alone.
    document.querySelectorAll('a[href^="#"]').forEach((link) => link.addEventListener("click", (event) => {
      const target = document.querySelector(link.getAttribute("href"));
      event.preventDefault();
      target.scrollIntoView();
      if (link.className === "skip") { target.tabIndex = -1; target.focus(); }
    }));
  },
  draw() {
    const model = current(), words = new URLSearchParams();
    const list = (names) => names.map((name) => encodeURIComponent(name)).join(",");
    const parts = [["b", state.budget], ["model", MODELS.length > 1 && encodeURIComponent(model.name)], ["node", state.node !== null && encodeURIComponent(testName(model, state.node))],
      ["only", state.only && `${state.only.kind}:${list([state.only.value].flat())}`], ["verified", list(state.verified)], ["honest", list(state.honest)]];
    this.written = `#${parts.filter(([, value]) => value || value === 0).map(([key, value]) => `${key}=${value}`).join("&")}`;
    // Browsers refuse many changes of the address in a row, as while a slider is dragged.
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (location.hash !== this.written) history.replaceState(null, "", this.written); }, 150);
  },
  read() {
    const found = new Map(location.hash.slice(1).split("&").map((part) => part.split("=")).filter((part) => part.length === 2));
    const text = (key) => { try { return decodeURIComponent(found.get(key) ?? ""); } catch { return ""; } };
    const list = (value) => value.split(",").filter((part) => part).flatMap((part) => { try { return [decodeURIComponent(part)]; } catch { return []; } });
    const named = MODELS.findIndex((model) => model.name === text("model"));
    const k = named >= 0 ? named : found.size ? Math.max(0, MODELS.findIndex((model) => model.name.toLowerCase() === text("model").toLowerCase())) : DATA.opens;
    const model = MODELS[k], wanted = found.has("b") ? Number(text("b")) : DATA.budget;
    const t = found.has("node") ? Array.from({ length: model.n }, (_, i) => i).findIndex((i) => testName(model, i) === text("node")) : -1;
    const [kind, value = ""] = (found.get("only") ?? "").split(":");
    state.model = -1;
    set({ model: k, budget: Number.isInteger(wanted) ? Math.min(Math.max(wanted, 0), model.lastFlips) : Math.min(DATA.budget, model.lastFlips), node: t < 0 ? null : t,
      only: FILTERS[kind] ? { kind, value: kind === "takeover" ? list(value).map(Number) : kind === "radius" ? Number(value) : list(value)[0] } : null,
      verified: list(found.get("verified") ?? ""), honest: list(found.get("honest") ?? "") });
  },
};
sections.push(address);
