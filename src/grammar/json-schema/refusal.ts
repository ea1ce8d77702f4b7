import { GrammarError } from '../types.ts';

/** A keyword that the grammar would not keep. */
export const unsupported = (path: string, keyword: string, why: string): GrammarError =>
  new GrammarError(
    'unsupported_schema',
    `JSON schema${at(path)}: '${keyword}' is not supported here: ${why}.`,
    {
      path,
    },
  );

/** What no schema may say. */
export const malformed = (path: string, why: string): GrammarError =>
  new GrammarError('unsupported_schema', `JSON schema${at(path)}: ${why}.`, { path });

/** The name of a type in place of a schema is what people write who think of a language's types. */
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

/** A member's name as a part of a JSON pointer. */
export const pointer = (path: string, ...names: readonly (string | number)[]): string =>
  names.reduce<string>(
    (all, name) => `${all}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`,
    path,
  );
