import type { z } from 'zod';
import type { KeyPath } from '../../config/toml-lines.ts';
import { formatValue } from '../../config/usage.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { didYouMean } from '../../words/nearest.ts';
import type { ConfigFaults } from './config-faults.ts';
import {
  aliasSchemas,
  type ByokTable,
  type CacheTable,
  type FallbackTable,
  type GatewayTable,
  type HookTable,
  type LimitsTable,
  type ModelTable,
  type ProviderTable,
  providerId,
  type SecretsTable,
  tableSchemas,
  topLevelSchemas,
  type WebhookTable,
} from './schemas.ts';

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
  readonly webhook: WebhookTable | undefined;
  readonly gateway: GatewayTable | undefined;
  readonly hooks: readonly Entry<HookTable>[];
  readonly cache: CacheTable | undefined;
  readonly limits: LimitsTable;
  /** Ids of all tables, also of invalid ones, so that references to those are not reported as further faults. */
  readonly declaredIds: { readonly providers: readonly string[]; readonly models: readonly string[] };
}

const tableNames = [...Object.keys(tableSchemas), 'aliases', ...Object.keys(topLevelSchemas)];

/** Parses the tables of a file; adds a fault for every invalid part. */
export function parseTables(raw: Readonly<Record<string, unknown>>, faults: ConfigFaults): Tables {
  for (const key of Object.keys(raw))
    if (!tableNames.includes(key))
      faults.add([key], `unknown key${didYouMean(key.replaceAll('-', '_'), tableNames, (near) => near)}`);

  const list = <T>(name: 'providers' | 'models' | 'fallbacks' | 'hooks'): Entry<T>[] =>
    tableRows(raw, name, faults).flatMap(({ path, value }) => {
      const parsed = faults.parse(tableSchemas[name], value, path);
      return parsed === undefined ? [] : [{ path, value: parsed as T }];
    });
  const declaredIds = (name: 'providers' | 'models') =>
    (Array.isArray(raw[name]) ? raw[name] : []).flatMap((row: unknown) =>
      isTable(row) && typeof row['id'] === 'string' ? [row['id']] : [],
    );
  const topLevel = (name: keyof typeof topLevelSchemas) =>
    faults.parse(topLevelSchemas[name], raw[name], [name]);
  const optional = <T extends z.ZodType>(name: string, schema: T) =>
    raw[name] === undefined ? undefined : faults.parse(schema, raw[name], [name]);
  const secrets = optional('secrets', tableSchemas.secrets);

  return {
    database: topLevel('database'),
    databaseEnv: topLevel('database_env'),
    providers: list('providers'),
    models: list('models'),
    aliases: tableMembers(raw, 'aliases', faults).flatMap(({ path, name, value }) => {
      const alias = faults.parse(aliasSchemas.name, name, path);
      const to = faults.parse(aliasSchemas.to, value, path);
      return alias === undefined || to === undefined ? [] : [{ path, value: { name: alias, to } }];
    }),
    fallbacks: list('fallbacks'),
    byok: tableMembers(raw, 'byok', faults).flatMap(({ path, name, value }) => {
      const id = faults.parse(providerId, name, path);
      const parsed = faults.parse(tableSchemas.byok, value, path);
      return id === undefined || parsed === undefined ? [] : [{ path, value: { ...parsed, id } }];
    }),
    webhook: optional('webhook', tableSchemas.webhook),
    gateway: optional('gateway', tableSchemas.gateway),
    hooks: list('hooks'),
    cache: optional('cache', tableSchemas.cache),
    secrets: secrets && { path: ['secrets'], value: secrets },
    limits:
      faults.parse(tableSchemas.limits, raw['limits'] ?? {}, ['limits']) ?? tableSchemas.limits.parse({}),
    declaredIds: { providers: declaredIds('providers'), models: declaredIds('models') },
  };
}

function tableRows(
  raw: Readonly<Record<string, unknown>>,
  name: string,
  faults: ConfigFaults,
): Entry<unknown>[] {
  const value = raw[name] ?? [];
  if (Array.isArray(value)) return value.map((row: unknown, index) => ({ path: [name, index], value: row }));
  faults.add([name], `expected tables [[${name}]], with two brackets, got ${formatValue(value)}`);
  return [];
}

function tableMembers(
  raw: Readonly<Record<string, unknown>>,
  name: 'aliases' | 'byok',
  faults: ConfigFaults,
) {
  const value = raw[name] ?? {};
  if (isTable(value))
    return Object.entries(value).map(([member, memberValue]) => ({
      path: [name, member],
      name: member,
      value: memberValue,
    }));
  const expected =
    name === 'aliases' ? 'a table [aliases] of names and ids of models' : 'tables [byok.PROVIDER]';
  faults.add([name], `expected ${expected}, got ${formatValue(value)}`);
  return [];
}

const isTable = (value: unknown): value is Json => isRecord(value) && !(value instanceof Date);
