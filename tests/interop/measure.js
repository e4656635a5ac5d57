// Unfold everything in .hs-page and write down, as JSON in a pre of that name: `texts` [contrast, words] of every text
// that is shown, `beyond` those that overflow, with by how many pixels, `aligned` how cells of tables are aligned, `backgrounds` theirs,
// `called` what was alerted meanwhile, `scripts` how many elements the page holds that could run something.
const one = document.createElement("canvas");
one.width = one.height = 1;
const brush = one.getContext("2d", { willReadFrequently: true });

const pixel = () => Array.from(brush.getImageData(0, 0, 1, 1).data.slice(0, 3));
const paint = (colour) => { brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1); };

function luminance(rgb) {
  const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The contrast ratio of WCAG 2: 1 is invisible, 21 is black on white.
function contrast(element) {
  const above = [];
  for (let node = element; node instanceof Element; node = node.parentElement) above.unshift(node);
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "Canvas";
  paint(getComputedStyle(probe).color);
  probe.remove();
  above.forEach((node) => paint(getComputedStyle(node).backgroundColor));
  const ground = luminance(pixel());
  const style = getComputedStyle(element);
  paint(element instanceof SVGElement ? style.fill : style.color);
  const ink = luminance(pixel());
  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
}

function measure() {
  const texts = [];
  const beyond = [];
  for (const page of document.querySelectorAll(".hs-page")) {
    page.querySelectorAll("details").forEach((section) => { section.open = true; });
    const walker = document.createTreeWalker(page, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = Array.from(range.getClientRects());
      if (!node.data.trim() || !boxes.length) continue;
      texts.push([contrast(node.parentElement), node.data.trim()]);
      const right = Math.max(...boxes.map((box) => box.right)) - document.documentElement.clientWidth;
      if (right > 0) beyond.push([right, node.data.trim()]);
    }
  }
  const styles = (what) => Array.from(document.querySelectorAll(`.hs-page :is(${what})`), (cell) => getComputedStyle(cell));
  return {
    texts,
    beyond,
    aligned: [...new Set(styles("td, th").map((style) => style.textAlign))],
    backgrounds: [...new Set(styles("td, th, tr, table, code").map((style) => style.backgroundColor))],
    called: window.called ?? [],
    scripts: document.querySelectorAll(".hs-page :is(script, iframe, img, object, embed, form, a, input)").length,
  };
}

// Images that fail to load call their handlers a little later.
addEventListener("load", () => setTimeout(() => {
  const report = document.createElement("pre");
  report.id = "measured";
  report.textContent = JSON.stringify(measure());
  document.body.append(report);
}, 500));
