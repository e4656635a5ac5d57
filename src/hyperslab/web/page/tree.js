/** The tree of places, folders, datasets, groups and arrays: each level is fetched when it is unfolded. */

import { fetchJson } from "./api.js";
import { formatBytes, formatCount, formatShape, make, say, visible } from "./texts.js";

/**
 * One item of the tree.
 * @typedef {object} Item
 * @property {string} kind name (which was not looked at yet), folder, database, dataset,
 *   group, collection, array, link, problem, more
 * @property {string} label
 * @property {string} place
 * @property {string|null} node path in the dataset; null for places and folders
 * @property {any} facts what the server tells of it
 * @property {Item|null} parent
 * @property {Item[]|null} children null before they were fetched
 * @property {string|null} next behind which node the list of children goes on
 * @property {boolean} isCut of a folder the first names alone are known
 * @property {Promise<void>|null} fetching
 * @property {boolean} isOpen
 * @property {HTMLElement} element
 * @property {HTMLElement} row
 * @property {HTMLElement} list
 */

let count = 0;
const FOLDED = new Set(["name", "folder", "database", "dataset", "group"]);
const SIGNS = {
  folder: "▤",
  database: "☰",
  name: "▤",
  dataset: "◆",
  group: "▣",
  collection: "☰",
  array: "▦",
  link: "↪",
  problem: "!",
};

export class Tree {
  /**
   * @param {HTMLElement} element
   * @param {(place: string, node: string|null) => void} onSelect
   */
  constructor(element, onSelect) {
    this.onSelect = onSelect;
    this.element = element;
    element.setAttribute("role", "tree");
    element.setAttribute("aria-label", "Datasets");
    /** @type {Item} */
    this.root = newItem("folder", "", "", null, null, {});
    this.root.isOpen = true;
    this.root.list = element;
    this.selected = null;
    /** Letters that the names have which are shown, in lower case; empty for all. */
    this.letters = "";
    element.addEventListener("keydown", (event) => this.#press(event));
    element.addEventListener("click", (event) => this.#click(event));
  }

  /**
   * Unfold the way to a place, and return what is there: a folder or dataset item, and the node that the path goes on to.
   * @param {string} place
   * @returns {Promise<{item: Item, node: string|null}>}
   */
  async reveal(place) {
    let item = this.root;
    await this.#fetchChildren(item);
    const parts = place ? place.split("/") : [];
    for (const [depth, name] of parts.entries()) {
      const child =
        findChild(item, name) ?? this.#addChild(item, newItem("name", name, joinPath(item.place, name), null, item, {}));
      try {
        await this.#fetchChildren(child);
      } catch (error) {
        markProblem(child, error.message);
        this.select(child);
        throw error;
      }
      this.#open(item);
      item = child;
      if (item.kind === "dataset") {
        const rest = parts.slice(depth + 1);
        return { item, node: rest.length ? `/${rest.join("/")}` : null };
      }
    }
    return { item, node: null };
  }

  /**
   * Unfold the way to a node that is there, and mark it.
   * @param {Item} dataset
   * @param {string} path
   * @param {any} facts of the node
   */
  async revealNode(dataset, path, facts) {
    let item = dataset;
    const parts = path.split("/").filter(Boolean);
    for (const [depth, name] of parts.entries()) {
      if (item.kind !== "collection") await this.#fetchChildren(item).catch(() => undefined);
      const isLast = depth === parts.length - 1;
      const below = joinPath(item.node ?? "/", name);
      const known = findChild(item, name);
      item =
        known ??
        this.#addChild(item, newItem(isLast ? facts.kind : "group", name, dataset.place, below, item, isLast ? facts : {}));
    }
    this.select(item);
    this.unfold(item);
  }

  /** Mark an item, and unfold what it lies in. @param {Item} item */
  select(item) {
    for (let above = item.parent; above; above = above.parent) this.#open(above);
    this.selected?.row?.setAttribute("aria-selected", "false");
    this.selected = item;
    if (item === this.root) return;
    if (this.letters) this.filter(this.letters);
    item.row.setAttribute("aria-selected", "true");
    if (!this.element.contains(document.activeElement)) this.#makeReachable(item);
    item.row.scrollIntoView({ block: "nearest" });
  }

  /** Unfold an item once its children are there. @param {Item} item */
  async unfold(item) {
    if (!FOLDED.has(item.kind)) return;
    try {
      await this.#fetchChildren(item);
      this.#open(item);
    } catch (error) {
      markProblem(item, error.message);
      say(error.message);
    }
  }

  /** Show the items alone whose names have these letters, and what they lie in or is in them. @param {string} letters */
  filter(letters) {
    this.letters = letters.trim().toLowerCase();
    this.#filterBelow(this.root, false);
    if (this.selected && this.selected !== this.root) this.selected.row.scrollIntoView({ block: "nearest" });
  }

  /** Hide what is not wanted below an item; return True where something is shown. @param {Item} item @param {boolean} isInside */
  #filterBelow(item, isInside) {
    let isAnyShown = false;
    for (const child of item.children ?? []) {
      const isWanted = isInside || child.label.toLowerCase().includes(this.letters);
      const isShown = this.#filterBelow(child, isWanted) || isWanted || child === this.selected;
      if (child.element) child.element.hidden = !isShown;
      isAnyShown ||= isShown;
    }
    return isAnyShown;
  }

  // -- items ----------------------------------------------------------------------------------------------------------

  /** @param {Item} item */
  async #fetchChildren(item) {
    if (item.children !== null || !FOLDED.has(item.kind)) return;
    item.fetching ??= this.#browse(item, null);
    try {
      await item.fetching;
    } finally {
      item.fetching = null;
    }
  }

  /** Fetch the children of an item, or those behind `after`. @param {Item} item @param {string|null} after */
  async #browse(item, after) {
    item.row?.setAttribute("aria-busy", "true");
    try {
      const query = item.kind === "group" ? { node: item.node, depth: 1, after } : { depth: 1, after };
      const answer = await fetchJson("browse", item.place, query);
      const isDataset = answer.kind === "dataset";
      if (item.kind === "name") this.#setKind(item, answer.kind, answer);
      item.children ??= [];
      const known = new Set(item.children.map((child) => child.label));
      const found = isDataset
        ? answer.nodes.map((node) => nodeItem(item, node)).filter((child) => child !== null)
        : answer.names.map((name) => newItem("name", name, joinPath(item.place, name), null, item, {}));
      item.children.push(...found.filter((child) => !known.has(child.label)));
      item.next = answer.next ?? null;
      item.isCut = !isDataset && !answer.is_whole;
      this.#draw(item);
    } finally {
      item.row?.removeAttribute("aria-busy");
    }
  }

  /** @param {Item} item @param {string} kind @param {any} facts */
  #setKind(item, kind, facts) {
    item.kind = kind;
    item.node = kind === "dataset" ? "/" : null;
    item.facts = { ...item.facts, format: facts.format, main: facts.main };
    fillRow(item);
  }

  /** @param {Item} parent @param {Item} child */
  #addChild(parent, child) {
    parent.children ??= [];
    parent.children.push(child);
    this.#draw(parent);
    return child;
  }

  /** Draw the children of an item that are not drawn yet. @param {Item} item */
  #draw(item) {
    item.list ??= makeList(item);
    const level = item === this.root ? 1 : Number(item.row.getAttribute("aria-level")) + 1;
    item.list.querySelector(":scope > .more")?.remove();
    const added = document.createDocumentFragment();
    for (const child of item.children.filter((each) => !each.element)) added.append(elementOf(child, level));
    if (item.next) {
      const more = elementOf(newItem("more", "more …", item.place, null, item, {}), level);
      more.classList.add("more");
      added.append(more);
    }
    if (item.isCut && !item.list.querySelector(":scope > .cut")) {
      const text = `these are the first ${formatCount(item.children.length)} names`;
      added.append(make("li", { role: "none", class: "cut muted" }, text));
    }
    item.list.append(added);
    if (this.letters) this.filter(this.letters);
    if (!item.children.length && item !== this.root) item.row.removeAttribute("aria-expanded");
    if (!this.element.querySelector('[tabindex="0"]')) this.#makeReachable(null);
  }

  /** @param {Item} more */
  async #showMore(more) {
    const item = more.parent;
    const before = item.children.length;
    await this.#browse(item, item.next);
    this.#focus(item.children[before] ?? item);
  }

  /** @param {Item} item */
  #open(item) {
    if (item === this.root || item.children === null || !item.children.length || item.isOpen) return;
    item.isOpen = true;
    item.list.hidden = false;
    item.row.setAttribute("aria-expanded", "true");
  }

  /** @param {Item} item */
  #close(item) {
    item.isOpen = false;
    if (item.list) item.list.hidden = true;
    item.row.setAttribute("aria-expanded", "false");
  }

  // -- keys and clicks ------------------------------------------------------------------------------------------------

  /** @param {MouseEvent} event */
  #click(event) {
    const item = itemOf(event.target.closest('[role="treeitem"]'));
    if (!item) return;
    this.#makeReachable(item);
    if (event.target.closest(".fold")) {
      if (item.isOpen) this.#close(item);
      else this.unfold(item);
    } else {
      this.#activate(item);
    }
  }

  /** @param {Item} item */
  #activate(item) {
    if (item.kind === "more") {
      this.#showMore(item).catch((error) => markProblem(item, error.message));
      return;
    }
    this.onSelect(item.place, item.node);
    if (FOLDED.has(item.kind)) this.unfold(item);
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const item = itemOf(document.activeElement);
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const shown = this.#shownItems();
    const place = shown.indexOf(item);
    const moves = {
      ArrowDown: () => this.#focus(shown[place + 1]),
      ArrowUp: () => this.#focus(shown[place - 1]),
      Home: () => this.#focus(shown[0]),
      End: () => this.#focus(shown.at(-1)),
      ArrowRight: () => (item.isOpen ? this.#focus(itemOf(item.list.firstElementChild)) : this.unfold(item)),
      ArrowLeft: () => (item.isOpen ? this.#close(item) : item.parent !== this.root && this.#focus(item.parent)),
      Enter: () => this.#activate(item),
      " ": () => this.#activate(item),
      "*": () => item.parent.children.filter((each) => each.element).forEach((each) => this.unfold(each)),
    };
    const move = moves[event.key] ?? (/^[^\s]$/u.test(event.key) ? () => this.#focusByLetter(shown, place, event.key) : null);
    if (!move) return;
    event.preventDefault();
    move();
  }

  /** @param {Item[]} shown @param {number} place @param {string} letter */
  #focusByLetter(shown, place, letter) {
    const turned = [...shown.slice(place + 1), ...shown.slice(0, place + 1)];
    this.#focus(turned.find((item) => item.label.toLowerCase().startsWith(letter.toLowerCase())));
  }

  #shownItems() {
    const all = [...this.element.querySelectorAll('[role="treeitem"]')];
    return all.filter((element) => !element.parentElement.closest("[hidden]")).map(itemOf);
  }

  /** @param {Item|undefined|null|false} item */
  #focus(item) {
    if (!item || item === this.root) return;
    this.#makeReachable(item);
    item.row.focus();
  }

  /** Let the tabulator key lead to one item of the tree. @param {Item|null} item */
  #makeReachable(item) {
    const present = this.element.querySelector('[tabindex="0"]');
    const wanted = item?.row ?? present ?? this.element.querySelector('[role="treeitem"]');
    present?.setAttribute("tabindex", "-1");
    wanted?.setAttribute("tabindex", "0");
  }
}

/** @type {WeakMap<Element, Item>} */
const ITEMS = new WeakMap();

/** @param {Element|null} element */
function itemOf(element) {
  return (element && ITEMS.get(element)) ?? null;
}

/** @returns {Item} */
function newItem(kind, label, place, node, parent, facts) {
  return { kind, label, place, node, facts, parent, children: null, next: null, isCut: false, fetching: null, isOpen: false };
}

/** Return the item of a node right below a dataset or group; null for itself. @param {Item} parent @param {any} node */
function nodeItem(parent, node) {
  const group = parent.node ?? "/";
  if (node.path === group) return null;
  const label = node.path.slice(group === "/" ? 1 : group.length + 1);
  return newItem(node.kind, label, parent.place, node.path, parent, node);
}

/** @param {Item} item @param {string} name */
function findChild(item, name) {
  return item.children?.find((child) => child.label === name);
}

/** @param {string} path @param {string} name */
function joinPath(path, name) {
  return path === "/" ? `/${name}` : path ? `${path}/${name}` : name;
}

/**
 * Make the element of an item: its row, which is what has the focus, and the list of its children beside that.
 * @param {Item} item @param {number} level
 */
function elementOf(item, level) {
  item.row = make("div", { class: "row", role: "treeitem", tabindex: -1, "aria-level": level, "aria-selected": "false" });
  item.row.style.setProperty("--level", level);
  item.element = make("li", { role: "none" }, item.row);
  for (const element of [item.row, item.element]) ITEMS.set(element, item);
  if (FOLDED.has(item.kind)) item.row.setAttribute("aria-expanded", "false");
  fillRow(item);
  return item.element;
}

/** Make the list of the children of an item. @param {Item} item */
function makeList(item) {
  count += 1;
  item.row.setAttribute("aria-owns", `tree-${count}`);
  return item.element.appendChild(make("ul", { role: "group", id: `tree-${count}`, hidden: !item.isOpen }));
}

/** Write what stands beside an item. @param {Item} item */
function fillRow(item) {
  const { row } = item;
  if (!row) return;
  const facts = summaryOf(item);
  row.dataset.kind = item.kind;
  row.title = visible(facts ? `${item.label}: ${facts}` : item.label);
  row.replaceChildren(
    make("span", { class: "fold", "aria-hidden": "true" }),
    make("span", { class: "sign", "aria-hidden": "true" }, SIGNS[item.kind] ?? ""),
    make("span", { class: "name" }, visible(item.label || "/")),
    make("span", { class: "facts" }, visible(facts)),
    make("span", { class: "unseen" }, wordOf(item)),
  );
}

/** @param {Item} item */
function wordOf(item) {
  return item.kind === "name" || item.kind === "more" ? "" : item.kind;
}

/** @param {Item} item */
function summaryOf({ kind, facts }) {
  if (facts.problem && kind !== "array") return facts.problem;
  switch (kind) {
    case "array":
      return [formatShape(facts.shape ?? []), facts.units, formatBytes(Number(facts.nbytes ?? 0))].filter(Boolean).join(" · ");
    case "link":
      return `→ ${facts.source && facts.source !== "." ? `${facts.source} ` : ""}${facts.target ?? ""}`;
    case "problem":
      return facts.message ?? "";
    case "dataset":
      return facts.format ?? "";
    default:
      return facts.type ?? "";
  }
}

/** @param {Item} item @param {string} message */
function markProblem(item, message) {
  item.facts = { ...item.facts, problem: message };
  item.row.removeAttribute("aria-expanded");
  fillRow(item);
}
