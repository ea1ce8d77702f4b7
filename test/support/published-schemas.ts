import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';

type Json = Record<string, unknown>;

/** The published document says `nullable` where its own version (3.1) wants a union with null. */
function withoutNullable(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutNullable);
  if (typeof node !== 'object' || node === null) return node;
  // The anchor is of an older draft than the document's own.
  const { nullable, $recursiveAnchor: _, ...rest } = node as Json;
  const plain = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [
      key,
      key === '$ref' ? String(value).replace('#/components/schemas/', '#/$defs/') : withoutNullable(value),
    ]),
  );
  // Only `$ref` counts where it stands; its neighbours are prose.
  const schema = typeof plain['$ref'] === 'string' ? { $ref: plain['$ref'] } : plain;
  return nullable === true ? { anyOf: [schema, { type: 'null' }] } : schema;
}

/** OpenAI's schemas by their names: gives what is wrong with a value, which is nothing in the best case. */
export function publishedSchemas(file: string) {
  const document = JSON.parse(readFileSync(file, 'utf8')) as { components: { schemas: Json } };
  const all = document.components.schemas;
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  const validators = new Map<string, ValidateFunction>();
  const validator = (name: string) => {
    const known = validators.get(name) ?? ajv.compile({ $ref: `#/$defs/${name}`, $defs: needed(all, name) });
    validators.set(name, known);
    return known;
  };
  return (name: string, value: unknown): ErrorObject[] => {
    const validate = validator(name);
    return validate(value) ? [] : (validate.errors ?? []);
  };
}

/** A schema and what it refers to; some of the others are no schemas. */
function needed(all: Json, name: string): Json {
  const found: Json = {};
  const add = (each: string) => {
    if (each in found) return;
    if (!(each in all)) throw new Error(`OpenAI publishes no schema ${each}`);
    found[each] = withoutNullable(all[each]);
    for (const [, inner = ''] of JSON.stringify(found[each]).matchAll(/"#\/\$defs\/([^"]+)"/g)) add(inner);
  };
  add(name);
  return found;
}
