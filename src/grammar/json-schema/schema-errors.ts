import { GrammarError } from '../types.ts';

/** The error of a keyword that the grammar cannot enforce. */
export const createUnsupportedError = (path: string, keyword: string, reason: string): GrammarError =>
  new GrammarError(
    'unsupported_schema',
    `JSON schema${formatLocation(path)}: '${keyword}' is not supported here: ${reason}.`,
    {
      path,
    },
  );

/** The error of an invalid schema. */
export const createMalformedError = (path: string, reason: string): GrammarError =>
  new GrammarError('unsupported_schema', `JSON schema${formatLocation(path)}: ${reason}.`, { path });

/** The error of a value that is not a schema. Suggests a fix for a bare type name, which is a common mistake. */
export function createNotASchemaError(path: string, value: unknown): GrammarError {
  const json = (JSON.stringify(value) ?? 'nothing').slice(0, 100);
  const hint = typeNames.has(value) ? `; write {"type": ${json}}` : '';
  return createMalformedError(path, `expected a schema (an object or a boolean), got ${json}${hint}`);
}
const typeNames: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
]);

const formatLocation = (path: string): string =>
  path === '' ? '' : ` at ${path.length > 300 ? `${path.slice(0, 300)}...` : path}`;

/** Appends names to a JSON pointer. */
export const appendPointer = (path: string, ...names: readonly (string | number)[]): string =>
  names.reduce<string>(
    (result, name) => `${result}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`,
    path,
  );
