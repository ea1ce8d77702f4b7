import { createHash } from 'node:crypto';

type Json = Record<string, unknown>;

const consolePaths =
  /^\/(?:lab|agent|host|observe|recorder)\/v1\/|^\/v1\/(?:chat\/completions|models)$|^\/health$/;

/** The part of the host's OpenAPI document that the console uses: its paths and the schemas that they reference. */
export function consoleDocument(document: Json): Json {
  const paths = Object.fromEntries(
    Object.entries(document['paths'] as Json).filter(([path]) => consolePaths.test(path)),
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

/** Hash in the first line of `schema.d.ts`, by which a test detects that the host's routes have changed. */
export const documentFingerprint = (document: Json): string =>
  createHash('sha256')
    .update(JSON.stringify(consoleDocument(document)))
    .digest('hex')
    .slice(0, 16);
