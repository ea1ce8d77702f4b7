import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv2020Class, ValidateFunction } from 'ajv/dist/2020.js';

// Both packages are CommonJS whose default export their types and Node see differently.
const require = createRequire(import.meta.url);
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof Ajv2020Class };
const { default: addFormats } = require('ajv-formats') as { default: (ajv: Ajv2020Class) => void };

type Json = Record<string, unknown>;
interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { schema: Json }>> }>
  >;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Json };
}

/** What every host says of an answer, and OpenAPI does not. */
const always = [405];

/**
 * Holds answers against the OpenAPI document of their host and against what is true of every answer; gives what is
 * wrong. A member that the document does not name is wrong, but where it says that there may be others.
 */
export function documentChecks(document: Document) {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats(ajv);
  ajv.addSchema({ $id: 'all', $defs: closed(document.components.schemas) });
  const validators = new Map<string, ValidateFunction>();
  const validator = (schema: Json) => {
    const uri = `all${String(schema['$ref']).replace('/components/schemas/', '/$defs/')}`;
    const known = validators.get(uri) ?? ajv.compile({ $ref: uri });
    validators.set(uri, known);
    return known;
  };
  /** The recorder writes refusals in the one envelope that all of its answers have. */
  const errorOf = (path: string) => ({
    $ref: `#/components/schemas/${path.startsWith('/recorder') ? 'RecorderRefusal' : 'HostError'}`,
  });
  const faultsOf = (schema: Json, text: string): string[] => {
    const validate = validator(schema);
    const value = parsed(text);
    if (value === undefined) return [`no JSON: ${text.slice(0, 200)}`];
    if (validate(value)) return [];
    const violations = (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
    return [...violations, text.slice(0, 500)];
  };

  return (method: string, path: string, response: Response, text: string): string[] => {
    const { status, headers } = response;
    const faults = headFaults(response);
    const operation = operationOf(document, method, path);
    const documented = operation?.responses[status];
    if (operation && !documented && !always.includes(status)) faults.push(`${status} is not documented`);
    const type = headers.get('content-type')?.split(';')[0] ?? '';
    if (method === 'HEAD') return text === '' ? faults : [...faults, 'HEAD has a body'];
    if (status === 204)
      return text === '' && type === '' ? faults : [...faults, `204 has a body of '${type}'`];
    if (!documented) return [...faults, ...faultsOf(errorOf(path), text)];
    const schema = documented.content?.[type]?.schema;
    if (!schema) return [...faults, `'${type}' is not documented for ${status}`];
    if (type === 'text/plain') return faults;
    if (type !== 'application/x-ndjson') return [...faults, ...faultsOf(schema, text)];
    if (text !== '' && !text.endsWith('\n')) faults.push('the last line has no end');
    return [
      ...faults,
      ...text
        .split('\n')
        .slice(0, -1)
        .flatMap((line) => faultsOf(schema, line)),
    ];
  };
}

function headFaults({ headers, status }: Response): string[] {
  const faults = [...headers.keys()].filter((name) => name.startsWith('access-control-'));
  const id = headers.get('x-request-id') ?? '';
  if (!/^req_\w{8,}$/.test(id)) faults.push(`x-request-id is '${id}'`);
  if (status === 405 && !headers.get('allow')) faults.push('405 without Allow');
  return faults;
}

/** The one whose path and method fit; written segments count before parameters. */
function operationOf({ paths }: Document, method: string, path: string): Operation | undefined {
  const requestParts = (path.split('?')[0] ?? '').split('/');
  const written = (template: string) => template.split('/').filter((part) => !part.startsWith('{')).length;
  const operation = (template: string) =>
    paths[template]?.[method.toLowerCase()] ?? (method === 'HEAD' ? paths[template]?.['get'] : undefined);
  const fits = (template: string) => {
    const parts = template.split('/');
    return (
      parts.length === requestParts.length &&
      parts.every((part, index) => part.startsWith('{') || part === requestParts[index])
    );
  };
  return Object.keys(paths)
    .filter(fits)
    .toSorted((a, b) => written(b) - written(a))
    .map(operation)
    .find((found) => found !== undefined);
}

/** With no members beyond those that are named. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (typeof node !== 'object' || node === null) return node;
  const inner = Object.fromEntries(
    Object.entries(node).map(([key, value]) => [
      key,
      key === '$ref' ? String(value).replace('#/components/schemas/', '#/$defs/') : closed(value),
    ]),
  );
  const open = !('properties' in inner) || inner['type'] !== 'object' || 'additionalProperties' in inner;
  return open ? inner : { ...inner, additionalProperties: false };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
