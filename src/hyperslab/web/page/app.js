/** The page: what the address says is shown, and what is chosen is written into the address. */

import { fetchJson, takeToken } from "./api.js";
import { showCode } from "./code.js";
import { showDetails } from "./details.js";
import { hashOf, NOWHERE, stateOf } from "./state.js";
import { Table } from "./table.js";
import { copyText, formatBytes, formatCount, formatShape, make, makeButton, say, visible } from "./texts.js";
import { startTheme } from "./theme.js";
import { Tree } from "./tree.js";

// Milliseconds after which a changed view is in the address: browsers refuse more than some changes per second.
const ADDRESS_DELAY = 200;
const SECTIONS = ["plot", "table", "names", "details", "code"];
const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    /** @type {import("./state.js").State} */
    this.state = NOWHERE;
    this.hash = null;
    this.facts = null;
    this.folder = null;
    this.plot = null;
    this.abort = new AbortController();
    this.tree = new Tree(byId("tree"), (place, node) => this.go({ ...NOWHERE, place, node }));
    this.table = new Table(byId("table"), {
      linkTo: (node) => this.linkTo(node),
      linkToObject: (name) => hashOf({ place: `${this.state.place}/${name}` }),
      onChange: (change) => this.#changeTable(change),
    });
  }

  start() {
    takeToken();
    startTheme(byId("theme"));
    for (const event of ["popstate", "hashchange"]) window.addEventListener(event, () => this.#follow());
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    });
    byId("permalink").addEventListener("click", async () => {
      const isCopied = await copyText(location.href);
      byId("permalink").textContent = isCopied ? "Copied" : "It is in the address bar";
      setTimeout(() => (byId("permalink").textContent = "Copy link"), 2000);
    });
    byId("tree-switch").addEventListener("click", () =>
      this.#showSide(byId("tree-switch").getAttribute("aria-expanded") !== "true"),
    );
    byId("tree-filter").addEventListener("input", () => this.tree.filter(byId("tree-filter").value));
    byId("side").addEventListener("keydown", (event) => event.key === "Escape" && this.#showSide(false));
    return this.#follow();
  }

  /** Show something else, and let Back lead to what is shown now. @param {import("./state.js").State} state */
  go(state) {
    const hash = hashOf(state);
    if (hash === this.hash) return;
    this.#writeAddress();
    history.pushState(null, "", hash);
    this.#showSide(false);
    this.#follow();
  }

  /** Return the address of another node of the dataset. @param {string} node */
  linkTo(node) {
    return hashOf({ place: this.dataset, node });
  }

  /** Show what the address says. */
  async #follow() {
    if (location.hash === this.hash) return;
    this.hash = location.hash;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const before = this.state;
    this.state = stateOf(location.hash);
    const isShown = this.facts !== null || this.folder?.kind === "database";
    const isSame = isShown && before.place === this.state.place && before.node === this.state.node;
    byId("main").setAttribute("aria-busy", "true");
    try {
      if (isSame) await (this.facts ? this.#showArrayParts() : this.#showTable());
      else await this.#load(signal);
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) this.#showError(error);
    }
    if (!signal.aborted) byId("main").removeAttribute("aria-busy");
  }

  /** @param {AbortSignal} signal */
  async #load(signal) {
    this.facts = null;
    this.folder = null;
    const { item, node } = await this.tree.reveal(this.state.place);
    if (signal.aborted) return;
    if (this.state.place === "" && item.children.length === 1) {
      this.#replace({ ...NOWHERE, place: item.children[0].place });
      return;
    }
    if (item.kind !== "dataset") {
      await this.#showFolder(item);
      return;
    }
    const path = this.state.node ?? node ?? "/";
    const alone = path === "/" && this.state.node === null ? loneArray(item) : null;
    if (alone) {
      this.#replace({ ...NOWHERE, place: item.place, node: alone });
      return;
    }
    this.dataset = item.place;
    const facts = await fetchJson("node", item.place, { node: path }, signal);
    this.facts = facts;
    await this.tree.revealNode(item, path, facts);
    if (!signal.aborted) await this.#showNode(signal);
  }

  /** Show something instead of what the address says. @param {import("./state.js").State} state */
  #replace(state) {
    history.replaceState(null, "", hashOf(state));
    queueMicrotask(() => this.#follow());
  }

  // -- what is shown --------------------------------------------------------------------------------------------------

  /** @param {import("./tree.js").Item} item */
  #showFolder(item) {
    this.tree.select(item);
    this.tree.unfold(item);
    const name = this.state.place.split("/").at(-1) || "Places";
    const count = `${formatCount(item.children.length)} ${item.children.length === 1 ? "name" : "names"}`;
    this.#setHeading(name, item.isCut ? `the first ${count}; there are more` : count, []);
    const isDatabase = item.kind === "database";
    this.dataset = this.state.place;
    this.folder = item;
    this.#showSections([isDatabase ? "table" : "names"]);
    if (isDatabase) return this.#showTable();
    return this.#fillNames(item.children.map((child) => [child.label, "", hashOf({ place: child.place })]));
  }

  /** @param {AbortSignal} signal */
  async #showNode(signal) {
    const { facts } = this;
    const path = facts.path.split("/").filter(Boolean);
    this.#setHeading(path.at(-1) ?? this.dataset.split("/").at(-1), summaryOf(facts), path);
    const isGroup = facts.kind === "group";
    const children = isGroup ? await this.#childrenOf(facts.path) : [];
    if (signal.aborted) return;
    const Plot = facts.kind === "array" ? await loadPlot() : null;
    if (signal.aborted) return;
    const isPlotted = Plot?.canPlot(facts) === true;
    const sections = ["details", "code"];
    if (isPlotted) sections.push("plot");
    if (facts.kind === "collection" || typeof facts.rows === "number") sections.push("table");
    if (children.length) sections.push("names");
    showDetails(byId("details"), facts, (node) => this.linkTo(node));
    this.#fillNames(children);
    this.#showSections(sections);
    byId("main").scrollTo(0, 0);
    if (isPlotted) this.plot ??= new Plot(byId("plot"), { place: this.dataset, onChange: (view) => this.#changeView(view) });
    await this.#showArrayParts();
    say(`${document.title} is shown`);
  }

  /** Show the parts that depend on more than the node: plot, table and code. */
  async #showArrayParts() {
    const { facts, state } = this;
    const isPlotted = !byId("plot-section").hidden;
    if (isPlotted) this.plot.show(facts, state.view);
    this.#showCode(isPlotted ? this.plot.part : null);
    if (byId("table-section").hidden) return;
    if (isPlotted && state.rows === null) this.#offerTable();
    else await this.#showTable();
  }

  /** Show the rows of the node, or the objects of the database. */
  async #showTable() {
    const { rows, filter, order } = this.state;
    const facts = this.facts ?? { kind: "database", path: null };
    const view = facts.kind === "array" && this.plot ? this.plot.view : null;
    await this.table.show({ place: this.dataset, facts, start: rows ?? 0, filter, order, view });
    if (["collection", "group"].includes(this.facts?.kind)) this.#showCode(null);
  }

  /** @param {object|null} view the state of the plot */
  #showCode(view) {
    const { filter, order } = this.state;
    const table = this.table.shown?.facts === this.facts ? this.table : null; // that of the node before has other rows
    const conditions = filter === null ? [] : (table?.conditions ?? null);
    const query = { conditions, order, python: this.facts?.kind === "collection" ? (table?.query ?? null) : null };
    const rows = this.facts?.kind === "group" ? (table?.range ?? null) : null;
    showCode(byId("code"), { place: this.dataset, facts: this.facts, view, rows, ...query });
  }

  /** Let the rows of an array that is plotted be asked for. */
  #offerTable() {
    this.table.clear();
    byId("table").replaceChildren(
      makeButton("Show the rows as a table", () => this.#changeTable({ rows: 0 }), { id: "show-rows" }),
    );
  }

  /** @param {string} path */
  async #childrenOf(path) {
    const answer = await fetchJson("browse", this.dataset, { node: path, depth: 1 }, this.abort.signal);
    const nodes = answer.nodes.filter((node) => node.path !== answer.group);
    const names = nodes.map((node) => [node.path.split("/").at(-1), summaryOf(node), this.linkTo(node.path)]);
    const remarks = answer.not_shown.map((text) => `not shown: ${text}`);
    if (answer.next) remarks.unshift(`these are the first ${formatCount(nodes.length)}; the tree has the others`);
    return [...names, ...remarks.map((text) => [null, text, null])];
  }

  /** @param {[string|null, string, string|null][]} names label, facts and address of each; a remark has facts alone */
  #fillNames(names) {
    byId("names").replaceChildren(
      ...names.map(([label, facts, address]) =>
        make(
          "li",
          {},
          address === null ? null : make("a", { href: address }, visible(label)),
          facts ? make("span", { class: "muted" }, visible(facts)) : null,
        ),
      ),
    );
  }

  /** Show sections, and hide the others. @param {string[]} names */
  #showSections(names) {
    byId("notice").hidden = true;
    for (const name of SECTIONS) byId(`${name}-section`).hidden = !names.includes(name);
    if (!names.includes("table")) this.table.clear();
    if (!names.includes("plot") || this.plot?.place !== this.dataset) {
      this.plot?.destroy();
      this.plot = null;
      byId("plot").replaceChildren();
    }
  }

  /** @param {any} error */
  #showError(error) {
    const { place, node } = this.state;
    this.#setHeading((node ?? place).split("/").at(-1) || "hyperslab", "", []);
    this.#showSections([]);
    const notice = byId("notice");
    const remedy = error.remedy ? make("p", {}, visible(error.remedy)) : null;
    notice.replaceChildren(
      make("strong", {}, visible(error.errorClass ?? "Error")),
      " ",
      visible(error.message),
      ...(remedy ? [remedy] : []),
    );
    notice.hidden = false;
  }

  /** @param {string} title @param {string} summary @param {string[]} path in the dataset */
  #setHeading(title, summary, path) {
    byId("title").textContent = visible(title);
    byId("summary").textContent = visible(summary);
    const isDataset = this.facts !== null;
    const parts = (isDataset ? this.dataset : this.state.place).split("/").filter(Boolean);
    document.title = visible([[...parts, ...path].join("/"), "hyperslab"].filter(Boolean).join(" — "));
    const links = [["Places", hashOf({})]];
    parts.forEach((part, place) => links.push([part, hashOf({ place: parts.slice(0, place + 1).join("/") })]));
    path.forEach((part, place) => links.push([part, this.linkTo(`/${path.slice(0, place + 1).join("/")}`)]));
    const items = links.map(([text, address], place) =>
      make("li", {}, make("a", { href: address, "aria-current": place === links.length - 1 ? "page" : null }, visible(text))),
    );
    byId("crumbs").replaceChildren(make("ol", {}, ...items));
    byId("crumbs").scrollLeft = byId("crumbs").scrollWidth; // where there is no room for all, the last ones are seen
    byId("crumbs").classList.toggle("cut", byId("crumbs").scrollLeft > 0);
  }

  /** Show or hide the tree on a narrow screen. @param {boolean} isShown */
  #showSide(isShown) {
    byId("side").classList.toggle("shown-side", isShown);
    byId("tree-switch").setAttribute("aria-expanded", String(isShown));
  }

  // -- what is changed here -------------------------------------------------------------------------------------------

  /** @param {object} view */
  #changeView(view) {
    if (!this.facts) return;
    const isTurned = view.x !== this.table.shown?.view?.x || view.y !== this.table.shown?.view?.y;
    const rows = this.state.rows !== null && isTurned ? 0 : this.state.rows;
    this.state = { ...this.state, view, rows };
    this.#showCode(this.plot.part);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.#writeAddress();
      if (rows !== null) this.#showTable();
    }, ADDRESS_DELAY);
  }

  /**
   * Show other rows; only what is chosen anew is something to come back to.
   * @param {Partial<import("./state.js").State>} change
   */
  #changeTable(change) {
    const state = { ...this.state, ...change };
    if (state.filter !== this.state.filter || state.order !== this.state.order) {
      this.go(state);
      return;
    }
    this.state = state;
    this.#writeAddress();
    this.#showTable();
  }

  /** Write what is shown now into the address. */
  #writeAddress() {
    clearTimeout(this.timer);
    if (this.hash === null || (this.facts === null && this.folder === null)) return;
    const hash = hashOf(this.state);
    if (hash === this.hash) return;
    this.hash = hash;
    history.replaceState(null, "", hash);
  }
}

/**
 * Return the one array of a dataset that has no more, or its main one; null for others.
 * @param {import("./tree.js").Item} item
 */
function loneArray(item) {
  if (item.facts.main) return item.facts.main;
  const [first, ...others] = item.children;
  return first?.kind === "array" && !others.length && !item.next ? first.node : null;
}

/** Return a shape with the names of its dimensions: time 6 x lat 10. @param {any} node */
function shapeOf({ dims, shape }) {
  if (!dims?.some(Boolean)) return formatShape(shape);
  return shape.map((size, axis) => [dims[axis], formatCount(size)].filter(Boolean).join(" ")).join(" x ");
}

/** @param {any} node */
function summaryOf(node) {
  const title = node.attributes?.find(
    ({ name, value }) => ["long_name", "title", "description"].includes(name) && typeof value === "string",
  );
  const facts =
    node.kind === "array"
      ? [shapeOf(node), node.dtype, node.units, formatBytes(Number(node.nbytes))]
      : [node.type ?? node.kind, node.target && `→ ${node.target}`, node.message];
  const parts = [title?.value, ...facts];
  const text = parts.filter(Boolean).join(" · ");
  return text.length > 300 ? `${text.slice(0, 300).toWellFormed()}…` : text;
}

/** Return the class that plots; null where it is not there, and details alone are shown. */
async function loadPlot() {
  try {
    return (await import("./plot.js")).Plot;
  } catch (error) {
    console.warn("plots cannot be shown:", error.message);
    return null;
  }
}

new App().start();
