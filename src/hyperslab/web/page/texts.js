/** Elements and texts: every text of a stranger becomes a text node, with what cannot be seen in it made visible. */

// Control characters, marks without width and those that turn the reading direction around, halves of surrogate pairs.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;

/**
 * Return a text with its control characters written as ⟨202E⟩.
 * @param {unknown} text
 * @param {boolean} keepsLines newlines and tabs stay as they are
 */
export function visible(text, keepsLines = false) {
  return String(text).replace(UNSEEN, (letter) => {
    if (keepsLines && (letter === "\n" || letter === "\t")) return letter;
    return `⟨${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/**
 * Make an element. Attributes that are null, undefined or false are left out; children are elements or texts.
 * @param {string} tag
 * @param {Record<string, string|number|boolean|null|undefined>} [attributes]
 * @param {...(Node|string|number|null|undefined)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : visible(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(nodeOf));
  return element;
}

/** @param {Node|string|number} child */
function nodeOf(child) {
  return child instanceof Node ? child : document.createTextNode(visible(child, true));
}

/**
 * Make a button that does something.
 * @param {string} text
 * @param {() => void} act
 * @param {Record<string, string|number|boolean|null|undefined>} [attributes]
 */
export function makeButton(text, act, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", act);
  return button;
}

/**
 * Make a button that copies a text, and says so.
 * @param {() => string} read
 * @param {string} label what is copied, for who does not see it
 * @param {Element} element that shows the text: it is selected where a page may not copy
 */
export function makeCopyButton(read, label, element) {
  const button = makeButton(
    "Copy",
    async () => {
      const isCopied = await copyText(read());
      if (!isCopied) getSelection().selectAllChildren(element);
      button.textContent = isCopied ? "Copied" : "Press Ctrl-C";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    },
    { class: "small", "aria-label": `Copy ${label}` },
  );
  return button;
}

/** Copy a text; returns false without leave for the clipboard, which no page has that came by HTTP. @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("copied");
    return true;
  } catch {
    return false;
  }
}

/** Have the browser save a file, of a name without what file systems forbid. @param {Blob} blob @param {string} name */
export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name.replace(/[^\p{L}\p{N}._-]+/gu, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // browsers may ask first where it goes
}

/** Return what went wrong, in one line. @param {{errorClass?: string, class?: string, message: string}} error caught, or of an answer */
export function errorText(error) {
  return `${error.errorClass ?? error.class ?? "Error"}: ${error.message}`;
}

/** Tell those who use a screen reader. @param {string} text */
export function say(text) {
  document.getElementById("status").textContent = visible(text);
}

/** Return a count with commas: 4,096. @param {number|bigint} number */
export function formatCount(number) {
  return number.toLocaleString("en-US");
}

/** Return a count of bytes in words: 1.2 MiB. @param {number} bytes */
export function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB"];
  let size = bytes;
  let unit = -1;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** Return a shape in words: 4 x 600 x 800. @param {number[]} shape */
export function formatShape(shape) {
  return shape.length ? shape.map(formatCount).join(" x ") : "one cell";
}
