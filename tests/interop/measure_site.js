// Show each page that `pages.json` names in a frame as wide as `?width=` says, and post to `/measured`, as JSON, of each:
// `wider` by how many pixels the page is wider than its frame, `broken` pictures that are not there, `clipped` words of
// tables that their cells do not hold, `narrow` the width of columns that hold sentences and no room for them, `texts` how
// many letters there are to be read.
const width = Number(new URLSearchParams(location.search).get("width"));
const NARROW = 60;
const SENTENCE = 25;

const frame = document.body.appendChild(document.createElement("iframe"));
Object.assign(frame.style, { width: `${width}px`, height: "900px", border: 0 });
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// The theme puts each table into a frame that scrolls by itself once its script runs.
const settled = (page) => Array.from(page.querySelectorAll(".md-typeset table:not([class])"))
  .every((table) => table.closest(".md-typeset__scrollwrap"));

async function shown(address) {
  await new Promise((resolve) => { frame.onload = resolve; frame.src = address; });
  const page = frame.contentDocument;
  for (let tries = 0; tries < 100 && !settled(page); tries += 1) await pause(50);
  page.querySelectorAll("details").forEach((section) => { section.open = true; });
  await page.fonts.ready;
  const pictures = Array.from(page.images); // those far below are fetched when one scrolls to them
  pictures.forEach((picture) => { picture.loading = "eager"; });
  for (let tries = 0; tries < 100 && !pictures.every((picture) => picture.complete); tries += 1) await pause(50);
  await pause(0);
  return page;
}

function measured(page) {
  const root = page.documentElement;
  const cells = Array.from(page.querySelectorAll(".md-typeset td"));
  const words = (cell) => cell.textContent.trim();
  return {
    wider: root.scrollWidth - root.clientWidth,
    settled: settled(page),
    broken: Array.from(page.images).filter((image) => !image.naturalWidth).map((image) => image.src),
    clipped: cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map(words),
    narrow: cells.filter((cell) => cell.clientWidth < NARROW && words(cell).length > SENTENCE)
      .map((cell) => [cell.clientWidth, words(cell)]),
    texts: page.querySelector("article").textContent.trim().length,
  };
}

async function everyPage() {
  const found = {};
  for (const address of await (await fetch("pages.json")).json()) found[address] = measured(await shown(address));
  await fetch("measured", { method: "POST", body: JSON.stringify(found) });
}

everyPage();
