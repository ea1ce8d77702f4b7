import { createHash } from 'node:crypto';

type Json = Record<string, unknown>;

export const consolePaths =
  /^\/(?:lab|agent|host|observe|recorder)\/v1\/|^\/v1\/(?:chat\/completions|models)$|^\/health$/;

/** The routes of a gateway's operator listener that its page uses. */
export const gatewayPaths = /^\/admin\/v1\//;

/** The part of an OpenAPI document that a page uses: its paths and the schemas that they reference. */
export function consoleDocument(document: Json, usedPaths = consolePaths): Json {
  const paths = Object.fromEntries(
    Object.entries(document['paths'] as Json).filter(([path]) => usedPaths.test(path)),
  );
  const { schemas } = document['components'] as { readonly schemas: Json };
  const schemaNames = new Set<string>();
  const collectSchemas = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"/]+)"/g)) {
      if (schemaNames.has(name)) continue;
      schemaNames.add(name);
      collectSchemas(schemas[name]);
    }
  };
  collectSchemas(paths);
  const usedSchemas = Object.fromEntries([...schemaNames].sort().map((name) => [name, schemas[name]]));
  return { ...document, info: { title: 'lathe', version: '1' }, paths, components: { schemas: usedSchemas } };
}

/** Hash in the first line of the types, by which a test detects that the routes have changed. */
export const documentFingerprint = (document: Json, usedPaths = consolePaths): string =>
  createHash('sha256')
    .update(JSON.stringify(consoleDocument(document, usedPaths)))
    .digest('hex')
    .slice(0, 16);
