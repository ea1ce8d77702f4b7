import { isIP } from 'node:net';
import { parseExpiry } from '../../words/expiry.ts';
import { parsePeriod, parseTimeZone } from '../budgets/period.ts';
import { maxChanges } from '../ledger/change-log.ts';
import { maxKeyLimits } from '../ledger/checks.ts';
import { logFormats } from '../serve/request-log.ts';
import { parseUsageDimensions, parseUsageSince, parseUsageUntil } from '../usage/query.ts';
import { parseNanodollars } from '../ledger/money.ts';

interface Flag<T> {
  /** Placeholder of the value in the help text. */
  readonly value: string;
  readonly help: string;
  /** Parses the value. @throws RangeError with a message for the user */
  readonly read: (parseText: string) => T;
}

const parseText = (value: string): string => {
  if (value.trim() === '') throw new RangeError('must not be empty');
  return value;
};

const parseIntegerBetween =
  (min: number, max: number, unit = '') =>
  (value: string): number => {
    const number = /^\d{1,13}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new RangeError(`expected a whole number from ${min} to ${max}${unit}, got '${value}'`);
  };

/** Parses an amount that is not negative. */
const parseUsd = (value: string): bigint => {
  const nano = parseNanodollars(value);
  if (nano >= 0n) return nano;
  throw new RangeError(`must not be negative, got '${value}'`);
};

/** Parses a value, or the word that stands for none of it: null. */
const parseOr =
  <T>(none: string, read: (value: string) => T) =>
  (value: string): T | null =>
    value === none ? null : read(value);

const parseOneOf =
  <Choice extends string>(choices: readonly Choice[]) =>
  (value: string): Choice => {
    const choice = choices.find((one) => one === value);
    if (choice !== undefined) return choice;
    throw new RangeError(`expected ${choices.join(' or ')}, got '${value}'`);
  };

const parseDay = (value: string): string => {
  const time = /^\d{4}-\d\d-\d\d$/.test(value) ? Date.parse(value) : Number.NaN;
  // A day that does not exist, such as 2026-02-30, is read as another one.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(value)) return value;
  throw new RangeError(`expected a day such as 2026-01-31, got '${value.slice(0, 60)}'`);
};

const parseFraction = (value: string): number => {
  const number = /^(?:\d+(?:\.\d*)?|\.\d+)$/.test(value) ? Number(value) : Number.NaN;
  if (number >= 0 && number <= 1) return number;
  throw new RangeError(`expected a number from 0 to 1, got '${value}'`);
};

const parseHost = (value: string): string => {
  if (isIP(value) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i.test(value)) return value;
  throw new RangeError('expected an address or a host name, without port and brackets');
};

const parseNames = (value: string): string[] => {
  const found = value
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  if (found.length > 0) return [...new Set(found)];
  throw new RangeError('expected ids of models, separated by commas');
};

const parsePer = (value: string): string => {
  parsePeriod(value);
  return value;
};

const parseDatabase = (value: string): string => {
  if (/^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/s.test(value)) return value;
  // The value may hold a password, so the message does not repeat it.
  throw new RangeError('expected sqlite:PATH or postgres://USER@HOST/DATABASE');
};

export const flags = {
  config: {
    value: 'FILE',
    help: 'the configuration (default: gateway.toml, if it exists)',
    read: parseText,
  },
  database: {
    value: 'URL',
    help: 'sqlite:PATH or postgres://... (default: from the configuration; else $LATHE_DATABASE; else SQLite in $LATHE_DATA_DIR or ~/.local/share/lathe)',
    read: parseDatabase,
  },
  host: { value: 'ADDRESS', help: 'address to listen on (default 127.0.0.1)', read: parseHost },
  port: {
    value: 'N',
    help: 'port to listen on; 0 picks a free port (default 8090)',
    read: parseIntegerBetween(0, 65_535),
  },
  'grace-secs': {
    value: 'N',
    help: 'after SIGTERM, SIGINT or SIGHUP, seconds that running requests get before they are aborted and settled (default 30)',
    read: parseIntegerBetween(0, 3600, ' seconds'),
  },
  'admin-host': {
    value: 'ADDRESS',
    help: 'address of the operator listener (default 127.0.0.1); its metrics have no authentication, so keep it private',
    read: parseHost,
  },
  'admin-port': {
    value: 'N',
    help: 'also open the operator listener at this port, with /metrics for Prometheus, /ready, /health and the admin API; 0 picks a free port',
    read: parseIntegerBetween(0, 65_535),
  },
  'admin-url': {
    value: 'URL',
    help: 'work on the running gateway with this operator listener instead of on a database (default: $LATHE_GATEWAY_ADMIN_URL, else the database)',
    read: parseText,
  },
  'admin-token-file': {
    value: 'FILE',
    help: "file with a line NAME TOKEN for each operator, for the admin API on the operator's port; with --admin-url, your line, or the token alone",
    read: parseText,
  },
  'log-format': {
    value: 'FORMAT',
    help: 'log requests, failed attempts and circuit breakers to stderr: text or json (default: no log; notices are text)',
    read: parseOneOf(logFormats),
  },
  'log-sample': {
    value: 'FRACTION',
    help: 'fraction of successful requests that are logged, from 0 to 1 (default 1); others always are',
    read: parseFraction,
  },
  'otlp-endpoint': {
    value: 'URL',
    help: 'send traces and metrics to this OpenTelemetry collector over HTTP (default: $OTEL_EXPORTER_OTLP_ENDPOINT, else none)',
    read: parseText,
  },
  'credit-usd': { value: 'USD', help: "the account's initial credits", read: parseUsd },
  'included-usd': {
    value: 'USD',
    help: "the account's included allowance; it is spent before credits",
    read: parseUsd,
  },
  note: { value: 'TEXT', help: 'the reason, recorded with the change', read: parseText },
  account: { value: 'NAME', help: 'the account, by name or id', read: parseText },
  label: { value: 'TEXT', help: 'what the key is for', read: parseText },
  parent: {
    value: 'NAME',
    help: 'the account above, whose budgets also limit this one, by name or id, or none',
    read: parseOr('none', parseText),
  },
  key: { value: 'ID', help: 'the key that the budget limits, by id', read: parseText },
  usd: { value: 'USD', help: 'the amount of the budget', read: parseUsd },
  per: {
    value: 'PERIOD',
    help: 'day, week or month of the calendar, or hours or days that end now, such as 12h and 30d',
    read: parsePer,
  },
  'time-zone': {
    value: 'ZONE',
    help: 'time zone of the calendar, such as Europe/Berlin (default UTC)',
    read: parseTimeZone,
  },
  name: { value: 'NAME', help: 'the new name of the account', read: parseText },
  'cap-usd': {
    value: 'USD',
    help: 'total spending limit of the key, or none',
    read: parseOr('none', parseUsd),
  },
  expires: {
    value: 'WHEN',
    help: 'a time from now (90d, 12h), a date (2030-01-31) or never',
    read: parseOr('never', parseExpiry),
  },
  model: { value: 'ID', help: 'only this model at the provider', read: parseText },
  models: {
    value: 'ID,ID',
    help: 'the only models that the key may use, or that are imported, or all',
    read: parseOr('all', parseNames),
  },
  rpm: {
    value: 'N',
    help: "the key's own limit of requests per minute, or none: requests_per_minute of the configuration",
    read: parseOr('none', parseIntegerBetween(1, maxKeyLimits.requests_per_minute, ' requests')),
  },
  tpm: {
    value: 'N',
    help: "the key's own limit of input and output tokens per minute, or none: tokens_per_minute of the configuration",
    read: parseOr('none', parseIntegerBetween(1, maxKeyLimits.tokens_per_minute, ' tokens')),
  },
  concurrency: {
    value: 'N',
    help: "the key's own limit of concurrent requests, or none: concurrency of the configuration",
    read: parseOr('none', parseIntegerBetween(1, maxKeyLimits.concurrency, ' requests')),
  },
  before: {
    value: 'DAY',
    help: 'the first day that stays in the database, in UTC, such as 2026-01-31',
    read: parseDay,
  },
  limit: {
    value: 'N',
    help: 'how many entries (default 50)',
    read: parseIntegerBetween(1, maxChanges, ' entries'),
  },
  provider: { value: 'NAME', help: "the price list's name of the provider", read: parseText },
  as: { value: 'ID', help: 'id of the provider in the configuration; default: NAME', read: parseText },
  by: {
    value: 'COLUMN,COLUMN',
    help: 'what to add up by: day, month, key, account, provider, model, tag (default model)',
    read: parseUsageDimensions,
  },
  since: {
    value: 'WHEN',
    help: 'first day, in UTC: 30d (today and the 29 days before; the default), 2026-01-31 or 2026-01',
    read: parseUsageSince,
  },
  until: {
    value: 'DATE',
    help: 'last day: 2026-01-31 or 2026-01 (default: today)',
    read: parseUsageUntil,
  },
  'base-url': {
    value: 'URL',
    help: 'base URL of the endpoint, with its version: http://10.0.0.5:8000/v1',
    read: parseText,
  },
  'api-key-file': {
    value: 'FILE',
    help: "file with the endpoint's API key, if it needs one",
    read: parseText,
  },
} as const satisfies Readonly<Record<string, Flag<unknown>>>;

export type FlagName = keyof typeof flags;
export type FlagValues = { readonly [Name in FlagName]?: ReturnType<(typeof flags)[Name]['read']> };
export const flagNames = Object.keys(flags) as FlagName[];
export const isFlag = (name: string): name is FlagName => Object.hasOwn(flags, name);
/** Flags of commands that can work on a running gateway. */
export const adminFlags: readonly FlagName[] = ['admin-url', 'admin-token-file'];
/** Flags that every command accepts. */
export const commonFlags: readonly FlagName[] = ['config', 'database'];
