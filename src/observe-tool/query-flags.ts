import { UsageError } from '../config/usage.ts';
import { aggregates, buckets, directions, type ObserveQuery } from '../observe/query/shape.ts';
import type { ObserveViolation } from '../observe/errors.ts';
import { splitList } from '../terminal/arguments.ts';
import { nearestWord } from '../words/nearest.ts';
import type { Flags } from './arguments.ts';
import { parseCondition } from './condition.ts';
import type { SurfaceSchema } from './source.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Builds a query from flags. Throws `UsageError` with all syntax faults. The observe plane checks the names. */
export function buildQuery({ surface, columns }: SurfaceSchema, flags: Flags): ObserveQuery {
  const typeOf = (name: string) => columns.find((column) => column.name === name)?.type;
  const faults: string[] = [];
  const parseEach = <Part>(flag: string, given: readonly string[], read: (text: string) => Part): Part[] =>
    given.flatMap((text) => {
      try {
        return [read(text)];
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        faults.push(`--${flag} '${text}': ${error.message}`);
        return [];
      }
    });
  const query: Mutable<ObserveQuery> = { surface };
  if (flags.select) query.select = splitList(flags.select);
  if (flags.where) query.where = parseEach('where', flags.where, (text) => parseCondition(text, typeOf));
  if (flags['group-by']) query.group_by = parseEach('group-by', splitList(flags['group-by']), parseGrouping);
  if (flags.aggregate) query.aggregate = parseEach('aggregate', splitList(flags.aggregate), parseAggregate);
  if (flags['order-by']) query.order_by = parseEach('order-by', splitList(flags['order-by']), parseOrdering);
  if (flags.limit !== undefined) query.limit = flags.limit;
  if (faults.length > 0) throw new UsageError(faults);
  return query;
}

function parseName<Name extends string>(word: string, names: readonly Name[], kindText: string): Name {
  const found = names.find((name) => name === word);
  if (found !== undefined) return found;
  const near = nearestWord(word, names);
  throw new RangeError(
    `'${word}' is not ${kindText}${near === undefined ? `: expected ${names.join(', ')}` : ` (did you mean '${near}'?)`}`,
  );
}

function parseGrouping(text: string): NonNullable<ObserveQuery['group_by']>[number] {
  const [column = '', bucket] = text.split(/:(.*)/s);
  return bucket === undefined ? column : { column, bucket: parseName(bucket, buckets, 'a bucket') };
}

function parseOrdering(text: string): NonNullable<ObserveQuery['order_by']>[number] {
  const [column = '', direction] = text.split(/:(.*)/s);
  return direction === undefined
    ? { column }
    : { column, direction: parseName(direction, directions, 'a direction') };
}

function parseAggregate(text: string): NonNullable<ObserveQuery['aggregate']>[number] {
  const [, fn, column, name] = /^(\w+)(?:\(\s*(\w+|\*|)\s*\))?(?:\s+as\s+(\S+))?$/.exec(text) ?? [];
  if (fn === undefined)
    throw new RangeError("expected 'FN(COLUMN)', for example 'p95(total_ms)' or 'count as answers'");
  return {
    fn: parseName(fn, aggregates, 'an aggregate'),
    ...(column === undefined || column === '' || column === '*' ? {} : { column }),
    ...(name === undefined ? {} : { as: name }),
  };
}

/** Parses `--param NAME=VALUE` flags. @throws UsageError */
export function parseParameters(given: readonly string[] = []): Record<string, string> {
  const faults = given
    .filter((text) => !/^\w+=/.test(text))
    .map((text) => `--param '${text}': expected NAME=VALUE, for example since=-7d`);
  if (faults.length > 0) throw new UsageError(faults);
  return Object.fromEntries(
    given.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]),
  );
}

/** Formats a violation of the observe plane with the flag that caused it. */
export function describeViolation({ path, message }: ObserveViolation, flags: Flags): string {
  const [, member = '', index] = /^(\w+)(?:\[(\d+)\])?/.exec(path) ?? [];
  if (member === 'parameters') return `--param ${path.split('.')[1] ?? ''}: ${message}`;
  const flag = member.replaceAll('_', '-');
  if (flag === 'limit') return `--limit: ${message}`;
  const isList =
    flag === 'select' ||
    flag === 'where' ||
    flag === 'group-by' ||
    flag === 'aggregate' ||
    flag === 'order-by';
  if (!isList || flags.file !== undefined) return path === '' ? message : `${path}: ${message}`;
  const given = flag === 'where' ? flags.where : splitList(flags[flag]);
  const text = index === undefined ? undefined : given?.[Number(index)];
  return text === undefined ? `--${flag}: ${message}` : `--${flag} '${text}': ${message}`;
}
