import { GrammarError } from '../types.ts';

/** The error of a keyword that the grammar cannot enforce. */
export const unsupported = (path: string, keyword: string, why: string): GrammarError =>
  new GrammarError(
    'unsupported_schema',
    `JSON schema${at(path)}: '${keyword}' is not supported here: ${why}.`,
    {
      path,
    },
  );

/** The error of an invalid schema. */
export const malformed = (path: string, why: string): GrammarError =>
  new GrammarError('unsupported_schema', `JSON schema${at(path)}: ${why}.`, { path });

/** The error of a value that is not a schema. Suggests a fix for a bare type name, which is a common mistake. */
export function notASchema(path: string, value: unknown): GrammarError {
  const written = (JSON.stringify(value) ?? 'nothing').slice(0, 100);
  const instead = types.has(value) ? `; write {"type": ${written}}` : '';
  return malformed(path, `expected a schema (an object or a boolean), got ${written}${instead}`);
}
const types: ReadonlySet<unknown> = new Set([
  'array',
  'boolean',
  'integer',
  'null',
  'number',
  'object',
  'string',
]);

const at = (path: string): string =>
  path === '' ? '' : ` at ${path.length > 300 ? `${path.slice(0, 300)}...` : path}`;

/** Appends names to a JSON pointer. */
export const pointer = (path: string, ...names: readonly (string | number)[]): string =>
  names.reduce<string>(
    (all, name) => `${all}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`,
    path,
  );
