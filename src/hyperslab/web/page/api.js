/** What is asked of the server: JSON, and views as floats. Errors are those of the server, with class and remedy. */

import { escapePath } from "./state.js";

/** An error of the server, or that it does not answer. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{class?: string, message?: string, node?: string|null, remedy?: string|null}} facts
   */
  constructor(status, facts) {
    super(facts.message ?? "the server failed");
    this.name = "ApiError";
    this.status = status;
    this.errorClass = facts.class ?? "Error";
    this.node = facts.node ?? null;
    this.remedy = facts.remedy ?? null;
  }
}

/**
 * Return the address of something below `/api/`, relative to the page so that a proxy may put it anywhere.
 * @param {string} what browse, node, rows, cell, view, export ...
 * @param {string} place
 * @param {Record<string, unknown>} [query] lists are said once per item; null and undefined are left out
 */
export function apiUrl(what, place, query = {}) {
  const url = new URL(`api/${what}${place ? "/" : ""}${place ? escapePath(place) : ""}`, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined) url.searchParams.append(name, String(item).toWellFormed());
    }
  }
  return url;
}

/** Return the address of a dataset as Zarr. @param {string} place */
export function zarrUrl(place) {
  return new URL(`zarr/${escapePath(place)}`, document.baseURI.replace(/#.*/s, "")).href;
}

/**
 * @param {string} what
 * @param {string} place
 * @param {Record<string, unknown>} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function fetchJson(what, place, query, signal) {
  return JSON.parse(await (await fetchAnswer(what, place, query, signal)).text(), keepDigits);
}

/**
 * Whole numbers beyond 2^53, which JavaScript would round, stay the text that the server sent.
 * @param {string} name
 * @param {unknown} value
 * @param {{source?: string}} [context] in browsers of 2025 and later
 */
function keepDigits(name, value, context) {
  if (typeof value !== "number" || !Number.isInteger(value) || Number.isSafeInteger(value)) return value;
  return context?.source && /^-?\d+$/.test(context.source) ? context.source : value;
}

/**
 * Return a view: its head, and its cells (layers by rows by columns).
 * @param {string} place
 * @param {Record<string, unknown>} query
 * @param {AbortSignal} [signal]
 * @returns {Promise<{head: any, cells: Float32Array, body: ArrayBuffer}>}
 */
export async function fetchView(place, query, signal) {
  const body = await (await fetchAnswer("view", place, query, signal)).arrayBuffer();
  const length = new DataView(body).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length)));
  return { head, cells: floatsOf(body, 4 + length), body };
}

/**
 * Return an answer of the server; rejects with ApiError, or AbortError.
 * @param {string} what
 * @param {string} place
 * @param {Record<string, unknown>} [query]
 * @param {AbortSignal} [signal]
 */
export async function fetchAnswer(what, place, query, signal) {
  let answer;
  try {
    answer = await fetch(apiUrl(what, place, query), { signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const facts = { class: "Unreachable", message: "the server does not answer", remedy: "start hyperslab serve again" };
    throw new ApiError(0, facts);
  }
  if (!answer.ok) throw new ApiError(answer.status, await errorFacts(answer));
  return answer;
}

/** @param {Response} answer */
async function errorFacts(answer) {
  try {
    return (await answer.json()).error ?? {};
  } catch {
    return { message: `the server answers ${answer.status}` };
  }
}

/** @param {ArrayBuffer} body @param {number} start */
function floatsOf(body, start) {
  const isLittle = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
  if (isLittle) return new Float32Array(body, start);
  const bytes = new DataView(body, start);
  return Float32Array.from({ length: bytes.byteLength / 4 }, (_, place) => bytes.getFloat32(4 * place, true));
}
