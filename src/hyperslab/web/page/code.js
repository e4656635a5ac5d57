/** What is shown as Python, as a command, as files to download, and as an address of Zarr. */

import { ApiError, fetchAnswer, zarrUrl } from "./api.js";
import { isComplex } from "./settings.js";
import { formatCount, make, makeButton, makeCopyButton, saveFile, say, visible } from "./texts.js";

const FORMATS = [
  ["csv", "CSV", ".csv"],
  ["npy", "npy", ".npy"],
  ["netcdf", "netCDF", ".nc"],
];
const KINDS = /^(bool|u?int|float|complex|datetime|timedelta)/;

/**
 * One dimension of what is shown: a position, or a range.
 * @typedef {{dim: string, name: string|null, size: number, index: number|null, start: number, stop: number}} Chosen
 */

/**
 * Show code and downloads.
 * @param {HTMLElement} element
 * @param {{place: string, facts: any, view: any, rows?: {start: number, stop: number}|null, conditions?: string[]|null,
 *   order?: string|null, python?: string|null}} shown the dataset, the
 *   answer of /api/node, the state of the plot (null without one), the rows of a table, conditions for the arrays of a collection (null where the
 *   server has not told them apart) and their order
 */
export function showCode(element, { place, facts, view, rows = null, conditions = [], order = null, python = null }) {
  const chosen = facts.kind === "array" ? chosenPart(facts, view) : [];
  const isCollection = facts.kind === "collection";
  const parts = [make("h2", {}, "As code")];
  parts.push(codeBlock("Python", isCollection ? collectionCode(facts, python) : pythonCode(facts, chosen, view, rows)));
  let command = isCollection ? collectionCommand(facts, conditions, order) : shellCommand(facts, chosen, view, rows);
  const second = facts.kind === "array" ? secondArray(facts, view) : null;
  if (command && second) command += `\n${shellCommand(second, chosen, view)}`;
  if (command) parts.push(codeBlock("Command", command));
  if (facts.kind === "array") parts.push(downloadBar(place, facts, chosen, view));
  parts.push(codeBlock("Zarr", zarrUrl(place)), codeBlock("xarray", xarrayCode(place)));
  element.replaceChildren(...parts);
}

/** Return the array that a plot compares with; null where it compares none. @param {any} facts @param {any} view */
function secondArray(facts, view) {
  const isElsewhere = facts.link && facts.link.url !== facts.url;
  if (!view?.pane || isElsewhere || facts.main === facts.path || ["traces", "histogram"].includes(view.kind)) return null;
  return { ...facts, link: null, path: view.pane.node };
}

/** Return how xarray reads a dataset by the server. @param {string} place */
function xarrayCode(place) {
  const headers = '{"Authorization": "Bearer TOKEN"}  # TOKEN: that of the address that hyperslab serve prints';
  return [
    "import xarray as xr",
    "",
    `headers = ${headers}`,
    `url = ${pythonText(zarrUrl(place))}`,
    'dataset = xr.open_dataset(url, engine="zarr", storage_options={"client_kwargs": {"headers": headers}})',
  ].join("\n");
}

/** @param {string} title @param {string} text */
function codeBlock(title, text) {
  const code = make("code", { "data-testid": title.toLowerCase() }, text);
  const head = make(
    "div",
    { class: "bar" },
    make("h3", {}, title),
    makeCopyButton(() => text, title, code),
  );
  return make("div", { class: "code" }, head, make("pre", { tabindex: 0, role: "region", "aria-label": title }, code));
}

// -- what is shown ------------------------------------------------------------------------------------------------------

/** @param {any} facts @param {any} view @returns {Chosen[]} */
export function chosenPart(facts, view) {
  return facts.coordinates.map(({ dim, size }, axis) => {
    const whole = { dim, name: facts.dims[axis] === dim ? dim : null, size, index: null, start: 0, stop: size };
    if (!view) return whole;
    if (dim !== view.x && dim !== view.y) return { ...whole, index: view.at?.[dim] ?? 0 };
    const [start, stop] = (dim === view.x ? view.x_range : view.y_range) ?? [0, size];
    return { ...whole, start, stop };
  });
}

/** @param {Chosen} each */
function isWhole(each) {
  return each.index === null && each.start === 0 && each.stop === each.size;
}

/** @param {any} facts @param {any} view */
function isDecoded(facts, view) {
  return view?.decoded !== false && !view?.field && (facts.dtype ?? "").match(KINDS) !== null;
}

// -- Python and shell ---------------------------------------------------------------------------------------------------

/** @param {any} facts @param {Chosen[]} chosen @param {any} view */
export function pythonCode(facts, chosen, view, rows = null) {
  const url = facts.link?.url ?? facts.url;
  const path = (facts.link?.leads_to ?? facts.path).replace(/^\//, "");
  const lines = ["import hyperslab as hs", ""];
  const isAlone = facts.main === facts.path || path === "";
  lines.push(`${isAlone && facts.kind === "array" ? "array" : "root"} = hs.open(${pythonText(url)})`);
  if (facts.kind !== "array") {
    const group = path ? `root[${pythonText(path)}]` : "root";
    lines.push(rows ? `columns = ${group}.read_table(${rows.start}, ${rows.stop})` : `print(${group}.tree())`);
    return lines.join("\n");
  }
  if (!isAlone) lines.push(`array = root[${pythonText(path)}]`);
  const read = `${isDecoded(facts, view) ? ".decoded()" : ""}${keyCode(chosen, view?.field)}`;
  const part = view && isComplex(facts) ? PART_CODE[view.part ?? "magnitude"] : (cells) => cells;
  if (part === PART_CODE.phase) lines.unshift("import numpy as np");
  lines.push(`cells = ${part(`array${read}`)}`);
  if (secondArray(facts, view) && !isAlone) {
    lines.push(`others = ${part(`root[${pythonText(view.pane.node.replace(/^\//, ""))}]${read}`)}`);
    if (view.pane.operation === "difference") lines.push("difference = cells - others");
  }
  return lines.join("\n");
}

/** How a part of complex numbers is written. */
const PART_CODE = {
  magnitude: (cells) => `abs(${cells})`,
  real: (cells) => `${cells}.real`,
  imag: (cells) => `${cells}.imag`,
  phase: (cells) => `np.angle(${cells})`,
};

/** @param {Chosen[]} chosen @param {string|undefined} field */
function keyCode(chosen, field) {
  const cut = chosen.filter((each) => !isWhole(each));
  const isNamed = cut.every((each) => each.name !== null && isIdentifier(each.name)) && !field;
  if (isNamed && cut.length) {
    const words = cut.map((each) => `${each.name}=${each.index ?? `slice(${each.start}, ${each.stop})`}`);
    return `.isel(${words.join(", ")})`;
  }
  const keys = chosen.map((each) => (isWhole(each) ? ":" : (each.index ?? `${each.start}:${each.stop}`)));
  while (keys.at(-1) === ":") keys.pop();
  const all = [...(field ? [pythonText(field)] : []), ...keys];
  return `[${all.length ? all.join(", ") : "..."}]`;
}

const KEYWORDS = new Set(
  [
    "False None True and as assert async await break class continue def del elif else except finally for from global if",
    "import in is lambda nonlocal not or pass raise return try while with yield indexers self",
  ]
    .join(" ")
    .split(" "),
);

/** @param {string} name */
function isIdentifier(name) {
  return /^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.has(name);
}

/** @param {any} facts @param {Chosen[]} chosen @param {any} view */
export function shellCommand(facts, chosen, view, rows = null) {
  const url = shellText(facts.link?.url ?? facts.url);
  const path = (facts.link?.leads_to ?? facts.path).replace(/^\/(?!-)/, ""); // what begins with - would be an option
  if (rows) return `hyperslab get ${url}${path ? ` ${shellText(path)}` : ""} -s row=${rows.start}..${rows.stop}`;
  if (facts.kind !== "array") return path ? treeCommand(facts.link?.url ?? facts.url, path) : `hyperslab info ${url}`;
  if (view?.field || chosen.some((each) => !/^[^\s=][^=]*$/.test(each.dim) || /\s$/.test(each.dim))) return null;
  const cut = chosen.filter((each) => !isWhole(each));
  const options = cut.map((each) => ` -s ${shellText(`${each.dim}=${each.index ?? `${each.start}..${each.stop}`}`)}`);
  const name = facts.main === facts.path || path === "" ? "" : ` ${shellText(path)}`;
  return `hyperslab get ${url}${name}${options.join("")}${isDecoded(facts, view) ? " --decoded" : ""}`;
}

/** Return the command that prints what lies below a group; null where an address names no node. @param {string} url @param {string} path */
function treeCommand(url, path) {
  return /^mongodb/.test(url) ? null : `hyperslab tree ${shellText(`${url.replace(/\/$/, "")}/${path.replace(/^\//, "")}`)}`;
}

/** @param {any} facts @param {string|null} python the call that finds the arrays, null for all */
function collectionCode(facts, python) {
  const open = `client = Client(${pythonText(facts.url)}, mode="r")`;
  const name = pythonText(facts.path.replace(/^\//, ""));
  const lines = [`from hyperslab.database import Client${python?.includes("Prefix(") ? ", Prefix" : ""}`, "", open];
  lines.push(`collection = client.get_collection(${name})`);
  if (python) lines.push(`arrays = ${escapeUnseen(python)}`);
  return lines.join("\n");
}

/** @param {any} facts @param {string[]|null} conditions @param {string|null} order */
function collectionCommand(facts, conditions, order) {
  if (conditions === null) return null;
  const words = [facts.url, facts.path.replace(/^\//, ""), ...conditions].map(shellText);
  const options = order ? ` --order ${shellText(order)}` : "";
  if (!words.some((word) => word.startsWith("-"))) return `hyperslab db query ${words.join(" ")}${options}`;
  return `hyperslab db query${options} -- ${words.join(" ")}`; // what begins with - is no option behind the --
}

/** Return a text as Python writes it, what cannot be seen escaped. @param {string} text */
export function pythonText(text) {
  return escapeUnseen(JSON.stringify(text));
}

/** @param {string} text */
function shellText(text) {
  if (/^[\w@%+:,./=-]+$/.test(text)) return text;
  const escaped = escapeUnseen(text);
  if (escaped !== text) return `$'${escapeUnseen(text.replaceAll("\\", "\\\\").replaceAll("'", "\\'"))}'`;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {string} text */
function escapeUnseen(text) {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (letter) => {
      return `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`;
    },
  );
}

// -- downloads ----------------------------------------------------------------------------------------------------------

/** @param {string} place @param {any} facts @param {Chosen[]} chosen @param {any} view */
function downloadBar(place, facts, chosen, view) {
  const note = make("span", { class: "muted", role: "status", "data-testid": "download-note" }, noteText(facts, chosen, view));
  const query = {
    node: facts.path,
    decoded: isDecoded(facts, view) ? 1 : 0,
    at: chosen.filter((each) => each.index !== null).map((each) => `${each.dim}:${each.index}`),
    range: chosen.filter((each) => each.index === null && !isWhole(each)).map((each) => `${each.dim}:${each.start}:${each.stop}`),
  };
  const name = facts.path.split("/").at(-1) || place.split("/").at(-1) || "array";
  const buttons = FORMATS.map(([format, title, ending]) => {
    const button = makeButton(title, () => download(button, note, place, { ...query, format }, `${name}${ending}`), {
      class: "small",
      "aria-label": `Download as ${title}`,
    });
    return button;
  });
  return make("div", { class: "bar", role: "group", "aria-label": "Download" }, make("h3", {}, "Download"), ...buttons, note);
}

/** @param {any} facts @param {Chosen[]} chosen @param {any} view */
function noteText(facts, chosen, view) {
  if (!secondArray(facts, view)) return sizeText(chosen);
  const remark = view.pane.operation === "difference" ? ", not of the difference (the Python gives it)" : "";
  return `${sizeText(chosen)} of ${facts.path}${remark}`;
}

/** @param {Chosen[]} chosen */
function sizeText(chosen) {
  const sizes = chosen.filter((each) => each.index === null).map((each) => each.stop - each.start);
  const cells = sizes.reduce((product, size) => product * size, 1);
  return sizes.length > 1
    ? `${sizes.map(formatCount).join(" x ")} cells`
    : `${formatCount(cells)} cell${cells === 1 ? "" : "s"}`;
}

/**
 * Fetch a file, and have the browser save it; an error is told beside the buttons.
 * @param {HTMLElement} button @param {HTMLElement} note
 * @param {string} place @param {Record<string, unknown>} query @param {string} name
 */
export async function download(button, note, place, query, name) {
  button.disabled = true;
  note.textContent = "on its way …";
  note.classList.remove("problem");
  try {
    const blob = await (await fetchAnswer("export", place, query)).blob();
    saveFile(blob, name);
    note.textContent = `saved ${formatCount(blob.size)} bytes`;
  } catch (error) {
    const remedy = error instanceof ApiError && error.remedy ? `; ${error.remedy}` : "";
    note.textContent = visible(`${error.message}${remedy}`);
    note.classList.add("problem");
    say(note.textContent);
  }
  button.disabled = false;
}
