import { isRecord, type Json } from '../../util/json.ts';
import { malformed, notASchema, pointer, unsupported } from './refusal.ts';

export type Schema = boolean | SchemaObject;
export type SchemaObject = Json;

/** A schema and its location in the document. */
export interface Place {
  readonly schema: Schema;
  /** JSON pointer, for error messages. */
  readonly path: string;
}

/** Keywords whose value is a schema; below, keywords with a list of schemas and keywords with schemas by name. */
const single = [
  'additionalItems',
  'additionalProperties',
  'contains',
  'contentSchema',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
];
const lists = ['allOf', 'anyOf', 'items', 'oneOf', 'prefixItems'];
const named = ['$defs', 'definitions', 'dependencies', 'dependentSchemas', 'patternProperties', 'properties'];

const mostSchemas = 20_000;
const mostDepth = 200;
const home = 'https://schema.invalid/';

export const isSchema = (value: unknown): value is Schema => typeof value === 'boolean' || isRecord(value);

/** A schema document, which resolves references inside it. */
export class SchemaDocument {
  readonly root: Place;
  readonly #bases = new Map<object, string>();
  readonly #byUri = new Map<string, Place>();
  #count = 0;

  constructor(schema: unknown) {
    if (!isSchema(schema)) throw notASchema('', schema);
    this.root = { schema, path: '' };
    this.#byUri.set(home, this.root);
    this.#index(this.root, home, 0);
  }

  place(schema: unknown, path: string): Place {
    if (!isSchema(schema)) throw notASchema(path, schema);
    return { schema, path };
  }

  /** Resolves the `$ref` of a schema. */
  resolve(from: SchemaObject, reference: unknown, path: string): Place {
    if (typeof reference !== 'string') throw malformed(path, "'$ref' must be a string");
    const base = this.#bases.get(from) ?? home;
    const target = URL.parse(reference, base);
    if (!target) throw malformed(path, `'$ref' is not a valid reference: ${reference.slice(0, 200)}`);
    const known = this.#byUri.get(target.href);
    if (known) return known;
    const fragment = target.hash.slice(1);
    target.hash = '';
    const whole = this.#byUri.get(target.href);
    if (!whole) {
      throw unsupported(
        path,
        '$ref',
        `'${reference.slice(0, 200)}' is outside this schema and is not fetched; copy it to '$defs' and refer to it there`,
      );
    }
    return this.#follow(whole, fragment, path, reference);
  }

  #follow(whole: Place, fragment: string, path: string, reference: string): Place {
    const missing = () =>
      malformed(pointer(path, '$ref'), `the target of '$ref' does not exist: ${reference.slice(0, 200)}`);
    let text: string;
    try {
      text = decodeURIComponent(fragment);
    } catch {
      throw missing();
    }
    if (text === '') return whole;
    if (!text.startsWith('/')) throw missing();
    let value: unknown = whole.schema;
    const names = text
      .slice(1)
      .split('/')
      .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
    for (const name of names) {
      if (Array.isArray(value)) value = /^\d+$/.test(name) ? value[Number(name)] : undefined;
      else value = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    }
    if (value === undefined) throw missing();
    return this.place(value, pointer(whole.path, ...names));
  }

  /** Indexes schemas by the URIs that references may use. */
  #index({ schema, path }: Place, outer: string, depth: number): void {
    if (!isRecord(schema) || this.#bases.has(schema)) return;
    if (depth > mostDepth) throw malformed(path, `schemas are nested deeper than ${mostDepth} levels`);
    if (++this.#count > mostSchemas) throw malformed('', `more than ${mostSchemas} schemas`);
    let base = outer;
    const id = schema['$id'] ?? schema['id'];
    if (typeof id === 'string') {
      const own = URL.parse(id, outer);
      if (own && own.hash !== '' && own.hash !== '#') this.#byUri.set(own.href, { schema, path });
      else if (own && (schema['$id'] !== undefined || path === '')) {
        base = own.href.replace(/#$/, '');
        if (!this.#byUri.has(base)) this.#byUri.set(base, { schema, path });
      }
    }
    this.#bases.set(schema, base);
    for (const keyword of ['$anchor', '$dynamicAnchor']) {
      const anchor = schema[keyword];
      if (typeof anchor !== 'string') continue;
      const uri = URL.parse(`#${anchor}`, base);
      if (uri) this.#byUri.set(uri.href, { schema, path });
    }
    const visit = (value: unknown, ...names: (string | number)[]) => {
      if (isRecord(value)) this.#index({ schema: value, path: pointer(path, ...names) }, base, depth + 1);
    };
    for (const keyword of single) visit(schema[keyword], keyword);
    for (const keyword of lists) {
      const list = schema[keyword];
      if (Array.isArray(list)) for (const [index, one] of list.entries()) visit(one, keyword, index);
    }
    for (const keyword of named) {
      const members = schema[keyword];
      if (isRecord(members)) for (const [name, one] of Object.entries(members)) visit(one, keyword, name);
    }
  }
}
