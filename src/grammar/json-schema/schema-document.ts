import { isRecord, type Json } from '../../util/json.ts';
import {
  createMalformedError,
  createNotASchemaError,
  appendPointer,
  createUnsupportedError,
} from './schema-errors.ts';

export type Schema = boolean | SchemaObject;
export type SchemaObject = Json;

/** A schema and its location in the document. */
export interface SchemaLocation {
  readonly schema: Schema;
  /** JSON pointer, for error messages. */
  readonly path: string;
}

/** Keywords whose value is a schema; below, keywords with a list of schemas and keywords with schemas by name. */
const schemaKeywords = [
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
const schemaListKeywords = ['allOf', 'anyOf', 'items', 'oneOf', 'prefixItems'];
const schemaMapKeywords = [
  '$defs',
  'definitions',
  'dependencies',
  'dependentSchemas',
  'patternProperties',
  'properties',
];

const maxSchemas = 20_000;
const maxDepth = 200;
const defaultBaseUri = 'https://schema.invalid/';

export const isSchema = (value: unknown): value is Schema => typeof value === 'boolean' || isRecord(value);

/** A schema document, which resolves references inside it. */
export class SchemaDocument {
  readonly root: SchemaLocation;
  readonly #bases = new Map<object, string>();
  readonly #byUri = new Map<string, SchemaLocation>();
  #count = 0;

  constructor(schema: unknown) {
    if (!isSchema(schema)) throw createNotASchemaError('', schema);
    this.root = { schema, path: '' };
    this.#byUri.set(defaultBaseUri, this.root);
    this.#index(this.root, defaultBaseUri, 0);
  }

  locate(schema: unknown, path: string): SchemaLocation {
    if (!isSchema(schema)) throw createNotASchemaError(path, schema);
    return { schema, path };
  }

  /** Resolves the `$ref` of a schema. */
  resolve(from: SchemaObject, reference: unknown, path: string): SchemaLocation {
    if (typeof reference !== 'string') throw createMalformedError(path, "'$ref' must be a string");
    const base = this.#bases.get(from) ?? defaultBaseUri;
    const target = URL.parse(reference, base);
    if (!target)
      throw createMalformedError(path, `'$ref' is not a valid reference: ${reference.slice(0, 200)}`);
    const existing = this.#byUri.get(target.href);
    if (existing) return existing;
    const fragment = target.hash.slice(1);
    target.hash = '';
    const baseLocation = this.#byUri.get(target.href);
    if (!baseLocation) {
      throw createUnsupportedError(
        path,
        '$ref',
        `'${reference.slice(0, 200)}' is outside this schema and is not fetched; copy it to '$defs' and refer to it there`,
      );
    }
    return this.#resolvePointer(baseLocation, fragment, path, reference);
  }

  #resolvePointer(
    baseLocation: SchemaLocation,
    fragment: string,
    path: string,
    reference: string,
  ): SchemaLocation {
    const createMissingError = () =>
      createMalformedError(
        appendPointer(path, '$ref'),
        `the target of '$ref' does not exist: ${reference.slice(0, 200)}`,
      );
    let text: string;
    try {
      text = decodeURIComponent(fragment);
    } catch {
      throw createMissingError();
    }
    if (text === '') return baseLocation;
    if (!text.startsWith('/')) throw createMissingError();
    let value: unknown = baseLocation.schema;
    const names = text
      .slice(1)
      .split('/')
      .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
    for (const name of names) {
      if (Array.isArray(value)) value = /^\d+$/.test(name) ? value[Number(name)] : undefined;
      else value = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    }
    if (value === undefined) throw createMissingError();
    return this.locate(value, appendPointer(baseLocation.path, ...names));
  }

  /** Indexes schemas by the URIs that references may use. */
  #index({ schema, path }: SchemaLocation, outerBase: string, depth: number): void {
    if (!isRecord(schema) || this.#bases.has(schema)) return;
    if (depth > maxDepth)
      throw createMalformedError(path, `schemas are nested deeper than ${maxDepth} levels`);
    if (++this.#count > maxSchemas) throw createMalformedError('', `more than ${maxSchemas} schemas`);
    let base = outerBase;
    const id = schema['$id'] ?? schema['id'];
    if (typeof id === 'string') {
      const ownUri = URL.parse(id, outerBase);
      if (ownUri && ownUri.hash !== '' && ownUri.hash !== '#') this.#byUri.set(ownUri.href, { schema, path });
      else if (ownUri && (schema['$id'] !== undefined || path === '')) {
        base = ownUri.href.replace(/#$/, '');
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
      if (isRecord(value))
        this.#index({ schema: value, path: appendPointer(path, ...names) }, base, depth + 1);
    };
    for (const keyword of schemaKeywords) visit(schema[keyword], keyword);
    for (const keyword of schemaListKeywords) {
      const list = schema[keyword];
      if (Array.isArray(list)) for (const [index, one] of list.entries()) visit(one, keyword, index);
    }
    for (const keyword of schemaMapKeywords) {
      const members = schema[keyword];
      if (isRecord(members)) for (const [name, one] of Object.entries(members)) visit(one, keyword, name);
    }
  }
}
