// A study: means over seeds for many models and datasets, instead of one certificate in detail.

function showStudy(study) {
  byId("certificate").remove();
  byId("toolbar").remove();
  const main = byId("study");
  main.hidden = false;
  fill(byId("study-title"), study.title);
  fill(byId("study-where"), study.where);
  const picker = byId("panel");
  fill(picker, study.panels.map((panel, k) => make("option", { value: k }, panel.heading)));
  byId("panel-choice").hidden = byId("study-curves").hidden = study.panels.length === 0;
  let chart = null;
  const draw = () => {
    const panel = study.panels[Number(picker.value)];
    if (!panel) return;
    chart = replaceCurves(chart, byId("study-curves"), {
      title: panel.heading, xLabel: study.xLabel, yLabel: panel.yLabel, height: 380, steps: false,
      lines: panel.curves.map((curve, k) => ({ ...curve, colour: () => paletteColour(k), dash: DASHES[Math.floor(k / PALETTE.length) % DASHES.length] })),
    });
  };
  picker.addEventListener("input", draw);
  draw();
  fill(byId("sheets"), study.sheets.map((sheet) => plainTable(sheet.title, sheet.headings, sheet.rows)));
  for (const cell of byId("sheets").querySelectorAll("td")) cell.classList.toggle("agrees", / =\)?$/.test(cell.textContent));
  fill(byId("study-notes"), study.notes.map((note) => make("li", {}, note)));
}
