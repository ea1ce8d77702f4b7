import type { KeyPath } from '../../config/toml-lines.ts';
import { show } from '../../config/usage.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { didYouMean } from '../../words/nearest.ts';
import type { Faults } from './faults.ts';
import {
  aliasShape,
  type ByokTable,
  type FallbackTable,
  type LimitsTable,
  type ModelTable,
  type ProviderTable,
  providerId,
  type SecretsTable,
  shapes,
  topShape,
} from './shapes.ts';

/** A valid part of the file and its path. */
export interface Entry<T> {
  readonly path: KeyPath;
  readonly value: T;
}

/** The valid parts of a file. */
export interface Tables {
  readonly database: string | undefined;
  readonly databaseEnv: string | undefined;
  readonly providers: readonly Entry<ProviderTable>[];
  readonly models: readonly Entry<ModelTable>[];
  readonly aliases: readonly Entry<{ readonly name: string; readonly to: string }>[];
  readonly fallbacks: readonly Entry<FallbackTable>[];
  readonly byok: readonly Entry<ByokTable & { readonly id: string }>[];
  readonly secrets: Entry<SecretsTable> | undefined;
  readonly limits: LimitsTable;
  /** Ids of all tables, also of invalid ones, so that references to those are not reported as further faults. */
  readonly named: { readonly providers: readonly string[]; readonly models: readonly string[] };
}

const tableNames = [...Object.keys(shapes), 'aliases', ...Object.keys(topShape)];

/** Parses the tables of a file; adds a fault for every invalid part. */
export function tablesOf(raw: Readonly<Record<string, unknown>>, faults: Faults): Tables {
  for (const key of Object.keys(raw))
    if (!tableNames.includes(key))
      faults.add([key], `unknown key${didYouMean(key.replaceAll('-', '_'), tableNames, (near) => near)}`);

  const list = <T>(name: 'providers' | 'models' | 'fallbacks'): Entry<T>[] =>
    rows(raw, name, faults).flatMap(({ path, value }) => {
      const parsed = faults.parse(shapes[name], value, path);
      return parsed === undefined ? [] : [{ path, value: parsed as T }];
    });
  const named = (name: 'providers' | 'models') =>
    (Array.isArray(raw[name]) ? raw[name] : []).flatMap((row: unknown) =>
      isTable(row) && typeof row['id'] === 'string' ? [row['id']] : [],
    );
  const top = (name: keyof typeof topShape) => faults.parse(topShape[name], raw[name], [name]);
  const secrets =
    raw['secrets'] === undefined ? undefined : faults.parse(shapes.secrets, raw['secrets'], ['secrets']);

  return {
    database: top('database'),
    databaseEnv: top('database_env'),
    providers: list('providers'),
    models: list('models'),
    aliases: members(raw, 'aliases', faults).flatMap(({ path, name, value }) => {
      const alias = faults.parse(aliasShape.name, name, path);
      const to = faults.parse(aliasShape.to, value, path);
      return alias === undefined || to === undefined ? [] : [{ path, value: { name: alias, to } }];
    }),
    fallbacks: list('fallbacks'),
    byok: members(raw, 'byok', faults).flatMap(({ path, name, value }) => {
      const id = faults.parse(providerId, name, path);
      const parsed = faults.parse(shapes.byok, value, path);
      return id === undefined || parsed === undefined ? [] : [{ path, value: { ...parsed, id } }];
    }),
    secrets: secrets && { path: ['secrets'], value: secrets },
    limits: faults.parse(shapes.limits, raw['limits'] ?? {}, ['limits']) ?? shapes.limits.parse({}),
    named: { providers: named('providers'), models: named('models') },
  };
}

function rows(raw: Readonly<Record<string, unknown>>, name: string, faults: Faults): Entry<unknown>[] {
  const value = raw[name] ?? [];
  if (Array.isArray(value)) return value.map((row: unknown, index) => ({ path: [name, index], value: row }));
  faults.add([name], `expected tables [[${name}]], with two brackets, got ${show(value)}`);
  return [];
}

function members(raw: Readonly<Record<string, unknown>>, name: 'aliases' | 'byok', faults: Faults) {
  const value = raw[name] ?? {};
  if (isTable(value))
    return Object.entries(value).map(([member, of]) => ({ path: [name, member], name: member, value: of }));
  const expected =
    name === 'aliases' ? 'a table [aliases] of names and ids of models' : 'tables [byok.PROVIDER]';
  faults.add([name], `expected ${expected}, got ${show(value)}`);
  return [];
}

const isTable = (value: unknown): value is Json => isRecord(value) && !(value instanceof Date);
