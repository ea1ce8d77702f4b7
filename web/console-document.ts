import { createHash } from 'node:crypto';

type Json = Record<string, unknown>;

const spoken = /^\/(?:lab|agent|host|observe|recorder)\/v1\/|^\/v1\/(?:chat\/completions|models)$|^\/health$/;

/** The part of the host's OpenAPI document that the console uses: its paths and the schemas that they reference. */
export function consoleDocument(document: Json): Json {
  const paths = Object.fromEntries(
    Object.entries(document['paths'] as Json).filter(([path]) => spoken.test(path)),
  );
  const { schemas } = document['components'] as { readonly schemas: Json };
  const named = new Set<string>();
  const follow = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"/]+)"/g)) {
      if (named.has(name)) continue;
      named.add(name);
      follow(schemas[name]);
    }
  };
  follow(paths);
  const kept = Object.fromEntries([...named].sort().map((name) => [name, schemas[name]]));
  return { ...document, info: { title: 'lathe', version: '1' }, paths, components: { schemas: kept } };
}

/** Hash in the first line of `schema.d.ts`, by which a test detects that the host's routes have changed. */
export const fingerprint = (document: Json): string =>
  createHash('sha256')
    .update(JSON.stringify(consoleDocument(document)))
    .digest('hex')
    .slice(0, 16);
