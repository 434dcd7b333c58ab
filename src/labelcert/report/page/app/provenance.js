// Where the numbers come from.

const provenance = {
  on: ["model"],
  start() {},
  draw() {
    const model = current();
    fill(byId("facts"), model.provenance.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
    const commands = [["Make this certificate again", model.command], ["Check it", model.verifyCommand]].filter(([, text]) => text);
    fill(byId("commands"), commands.map(([title, text]) => make("div", { className: "command" }, make("h3", {}, title),
      make("pre", {}, make("code", {}, text)),
      make("button", { type: "button", onclick: (event) => copy(text, event.target) }, "Copy"))));
    fill(byId("verification"), model.verification);
  },
};

sections.push(provenance);
