// Read every array of datasets over HTTP by zarrita.js: `node read_zarrita.mjs PACKAGES` is told, as JSON on its standard
// input, the URLs and headers, and writes what it read of each array: shape, attributes and cells, or its error.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = process.argv[2];
const load = async (name) => {
  const described = JSON.parse(readFileSync(join(packages, name, "package.json")));
  const main = described.exports?.["."] ?? described.main;
  const file = typeof main === "string" ? main : main.import?.default ?? main.import ?? main.default;
  return import(pathToFileURL(join(packages, name, file)));
};
const zarr = await load("zarrita");
const { datasets, headers } = JSON.parse(readFileSync(0, "utf8"));
const plain = (value) => (typeof value === "bigint" ? value.toString() : Number.isNaN(value) ? "nan" : value);

const read = async (root, path) => {
  const array = await zarr.open.v3(root.resolve(path), { kind: "array" });
  const cells = await zarr.get(array);
  const data = array.shape.length ? Array.from(cells.data, plain) : [plain(cells)];
  return { shape: array.shape, attributes: array.attrs, data };
};

const report = {};
for (const [name, { url, paths }] of Object.entries(datasets)) {
  const store = new zarr.FetchStore(url, { overrides: { headers } });
  const root = await zarr.open.v3(store, { kind: "group" });
  report[name] = {};
  for (const path of paths) {
    report[name][path] = await read(root, path).catch((error) => ({ error: String(error) }));
  }
}
process.stdout.write(JSON.stringify(report));
