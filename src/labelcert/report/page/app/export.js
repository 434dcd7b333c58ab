// Whatever is shown can be saved: tables as CSV, charts as SVG and PNG too.

function download(name, content, type) {
  const url = typeof content === "string" && type !== "image/png" ? URL.createObjectURL(new Blob([content], { type })) : content;
  const link = make("a", { href: url, download: name });
  link.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 1000);
}
const fileName = (title, ending) => `${title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "labelcert"}.${ending}`;

function plainText(content) {
  if (Array.isArray(content)) return content.flat(Infinity).map(plainText).join("");
  if (content instanceof HTMLInputElement) return content.checked ? "yes" : "no";
  return content instanceof Node ? content.textContent : String(content ?? "");
}
// A leading sign would make a spreadsheet calculate; numbers keep theirs.
const csvCell = (text) => {
  const inert = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
};
const csv = (rows) => rows.map((row) => row.map((cell) => csvCell(plainText(cell))).join(",")).join("\r\n") + "\r\n";

// rows(): a table with its headings; svg(): the same as a picture.
function exporter(title, { rows, svg = null }) {
  const button = (ending, save) => make("button", { type: "button", className: "save", "aria-label": `Save “${title}” as ${ending.toUpperCase()}`, onclick: save }, ending.toUpperCase());
  return make("p", { className: "export" }, "Save ",
    button("csv", () => download(fileName(title, "csv"), csv(rows()), "text/csv")),
    svg && [button("svg", () => download(fileName(title, "svg"), svg(), "image/svg+xml")), button("png", () => savePng(title, svg()))]);
}

function savePng(title, svg) {
  const image = new Image();
  image.onload = () => {
    const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    download(fileName(title, "png"), canvas.toDataURL("image/png"), "image/png");
  };
  image.src = `data:image/svg+xml;base64,${btoa(Array.from(new TextEncoder().encode(svg), (byte) => String.fromCharCode(byte)).join(""))}`;
}

// SVG is put together from text in which nothing can end a tag.
const inert = (text) => String(text).replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`);
const tag = (name, properties, content = "") =>
  `<${name}${Object.entries(properties).map(([key, value]) => ` ${key}="${inert(value)}"`).join("")}>${content}</${name}>`;
function svgPage(width, height, title, parts) {
  return tag("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 13, fill: colour("ink") },
    tag("title", {}, inert(title)) + tag("rect", { width, height, fill: colour("paper") }) + parts.join(""));
}
const svgText = (x, y, text, properties = {}) => tag("text", { x, y, ...properties }, inert(text));
