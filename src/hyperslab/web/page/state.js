/**
 * The address holds all that is shown: `#/<place>?node=/a/b&view=<JSON>&rows=<first row>&filter=<conditions>&order=<attribute>`.
 *
 * @typedef {object} State
 * @property {string} place path of a folder or dataset, its segments joined with `/`; empty for the list of places
 * @property {string|null} node path in the dataset
 * @property {object|null} view state of the plot
 * @property {number|null} rows first row of the table, null where the table is closed
 * @property {string|null} filter conditions for the rows of a collection or database
 * @property {string|null} order attribute that the arrays of a collection are sorted by, with `-` from the largest down
 */

/** @type {State} */
export const NOWHERE = Object.freeze({ place: "", node: null, view: null, rows: null, filter: null, order: null });

/** Return one segment of an address. Halves of surrogate pairs have no address. @param {string} text */
export function escapeSegment(text) {
  return encodeURIComponent(text.toWellFormed());
}

/** Return a path with every segment escaped. @param {string} place */
export function escapePath(place) {
  return place.split("/").map(escapeSegment).join("/");
}

/** Return the part of the address behind the page. @param {Partial<State>} state */
export function hashOf(state) {
  const { place, node, view, rows, filter, order } = { ...NOWHERE, ...state };
  const query = [];
  if (node !== null) query.push(`node=${escapePath(node)}`);
  if (view !== null) query.push(`view=${escapeSegment(JSON.stringify(view))}`);
  if (rows !== null) query.push(`rows=${rows}`);
  if (filter !== null) query.push(`filter=${escapeSegment(filter)}`);
  if (order !== null) query.push(`order=${escapeSegment(order)}`);
  return `#/${escapePath(place)}${query.length ? "?" : ""}${query.join("&")}`;
}

/**
 * Return the state that an address means; what makes no sense in it is left out.
 * @param {string} hash
 * @returns {State}
 */
export function stateOf(hash) {
  const [path, query = ""] = hash.replace(/^#?\/*/, "").split(/\?(.*)/s);
  const parameters = new URLSearchParams(query.replaceAll("+", "%2B"));
  const segments = path.split("/").filter(Boolean).map(decode);
  const rows = parameters.get("rows");
  return {
    place: segments.join("/"),
    node: parameters.get("node"),
    view: parseView(parameters.get("view")),
    rows: rows !== null && /^\d{1,15}$/.test(rows) ? Number(rows) : null,
    filter: parameters.get("filter"),
    order: parameters.get("order"),
  };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string|null} text */
function parseView(text) {
  if (text === null) return null;
  try {
    const view = JSON.parse(text);
    return view !== null && typeof view === "object" && !Array.isArray(view) ? view : null;
  } catch {
    return null;
  }
}
