import type { z } from 'zod';
import { didYouMean } from '../../words/nearest.ts';
import type { ObserveViolation } from '../errors.ts';
import { findSurface, unknownSurfaceMessage } from '../surfaces/index.ts';
import type { Column, Surface } from '../types.ts';
import { queryDigest, readCursor } from './cursor.ts';
import {
  aggregatesFor,
  bucketsFor,
  isComparable,
  operatorsFor,
  aggregateResult,
} from './column-operations.ts';
import { toOutputColumn, completeOrder } from './order.ts';
import { aggregate, condition, grouping, listLimits, observeQuery, ordering, rowLimits } from './shape.ts';
import type { OutputColumn, CheckedCondition, CheckedQuery, Order } from './types.ts';
import { parseValues } from './values.ts';
import { invalidQuery, toViolations } from './violations.ts';

export type { CheckedQuery } from './types.ts';

/** Validates a query and resolves its names. @throws ObserveError invalid, with all violations */
export function checkQuery(body: unknown): CheckedQuery {
  const faults: ObserveViolation[] = [];
  const parsed = observeQuery.safeParse(body, { reportInput: false });
  if (!parsed.success) faults.push(...parsed.error.issues.flatMap(toViolations));
  const given: Readonly<Record<string, unknown>> =
    typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  const surface = typeof given['surface'] === 'string' ? findSurface(given['surface']) : undefined;
  if (!surface && typeof given['surface'] === 'string')
    faults.push({ path: 'surface', message: unknownSurfaceMessage(given['surface']) });
  if (!surface) throw invalidQuery(faults);

  const { grouped, columns, where, order } = new QueryChecker(surface, given, faults).check();
  if (!parsed.success || faults.length > 0) throw invalidQuery(faults);
  const query = parsed.data;
  const digest = queryDigest(query);
  const about = { query, surface, grouped, columns, where, order, digest };
  const result = { ...about, limit: query.limit ?? rowLimits.default };
  if (query.cursor === undefined) return result;
  const page = readCursor(query.cursor, about);
  if (typeof page === 'string') throw invalidQuery([{ path: 'cursor', message: page }]);
  return { ...result, ...page };
}

/** Validates the parts of a query that have the right shape, and resolves the names in them. */
class QueryChecker {
  readonly #surface: Surface;
  readonly #body: Readonly<Record<string, unknown>>;
  readonly #faults: ObserveViolation[];

  constructor(surface: Surface, given: Readonly<Record<string, unknown>>, faults: ObserveViolation[]) {
    this.#surface = surface;
    this.#body = given;
    this.#faults = faults;
  }

  check() {
    const where = this.#resolveConditions();
    const groups = this.#groupColumns();
    const aggregates = this.#aggregateColumns();
    const selected = this.#selectedColumns();
    const grouped = this.#body['group_by'] !== undefined || this.#body['aggregate'] !== undefined;
    if (grouped && this.#body['select'] !== undefined)
      this.#addFault('select', 'cannot be combined with group_by and aggregate, which define the columns');
    const columns = grouped ? [...groups, ...aggregates] : selected;
    this.#refuseDuplicates(grouped ? groups.length : 0, columns);
    const order = completeOrder(this.#surface, { grouped, groups }, this.#resolveOrder(grouped, columns));
    return { grouped, columns, where, order };
  }

  #addFault(path: string, message: string): void {
    this.#faults.push({ path, message });
  }

  /** Elements of a list that have the right shape. The schema has already reported the others. */
  #validElements<Schema extends z.ZodType>(name: keyof typeof listLimits, schema: Schema) {
    const list = this.#body[name];
    if (!Array.isArray(list)) return [];
    return list.slice(0, listLimits[name]).flatMap((element: unknown, n) => {
      const { success, data } = schema.safeParse(element);
      return success ? [{ path: `${name}[${n}]`, element: data }] : [];
    });
  }

  #listLength(name: 'group_by' | 'aggregate'): number {
    const list = this.#body[name];
    return Array.isArray(list) ? list.length : 0;
  }

  #resolveColumn(name: string, path: string): Column | undefined {
    const { columns, name: surface } = this.#surface;
    const found = columns.find((column) => column.name === name);
    if (found) return found;
    const suggestion = didYouMean(
      name,
      columns.map((column) => column.name),
      (one) => `'${one}'`,
    );
    const hint = suggestion || `; the columns are: ${columns.map((column) => column.name).join(', ')}`;
    this.#addFault(path, `'${name.slice(0, 80)}' is not a column of ${surface}${hint}`);
    return undefined;
  }

  #resolveConditions(): CheckedCondition[] {
    return this.#validElements('where', condition).flatMap(({ path, element }) => {
      const column = this.#resolveColumn(element.column, `${path}.column`);
      if (!column) return [];
      const { op } = element;
      const known = operatorsFor(column);
      if (!known.includes(op)) {
        const kind = column.readOnly ? 'long texts' : column.type;
        this.#addFault(
          `${path}.op`,
          `'${op}' does not work with ${column.name} (${kind}): expected ${known.join(', ')}`,
        );
        return [];
      }
      const values = parseValues(column, element, (at, message) =>
        this.#addFault(`${path}.value${at}`, message),
      );
      return [{ column, op, values }];
    });
  }

  #selectedColumns(): OutputColumn[] {
    if (this.#body['select'] === undefined)
      return this.#surface.columns
        .filter((column) => !column.readOnly)
        .map((column) => toOutputColumn(column));
    const { shape } = observeQuery;
    const seen = new Set<string>();
    return this.#validElements('select', shape.select.unwrap().element).flatMap(({ path, element }) => {
      const column = this.#resolveColumn(element, path);
      if (column && seen.has(column.name)) this.#addFault(path, `'${column.name}' is listed twice`);
      seen.add(element);
      return column ? [toOutputColumn(column)] : [];
    });
  }

  #groupColumns(): OutputColumn[] {
    return this.#validElements('group_by', grouping).flatMap(({ path, element }) => {
      const { column: name, bucket } = typeof element === 'string' ? { column: element } : element;
      const column = this.#resolveColumn(name, typeof element === 'string' ? path : `${path}.column`);
      if (!column) return [];
      if (!isComparable(column)) {
        this.#addFault(path, `${column.name} cannot be grouped by: ${incomparableReason(column)}`);
        return [];
      }
      if (bucket !== undefined && !bucketsFor(column).includes(bucket)) {
        this.#addFault(`${path}.bucket`, `${column.name} is not a time column: leave out the bucket`);
        return [];
      }
      return [toOutputColumn(column, bucket)];
    });
  }

  #aggregateColumns(): OutputColumn[] {
    return this.#validElements('aggregate', aggregate).flatMap(({ path, element }) => {
      const { fn, column: name } = element;
      if (name === undefined && fn !== 'count') {
        this.#addFault(`${path}.column`, `is missing: ${fn} needs a column`);
        return [];
      }
      const column = name === undefined ? undefined : this.#resolveColumn(name, `${path}.column`);
      if (name !== undefined && !column) return [];
      if (column && !aggregatesFor(column).includes(fn)) {
        const known = aggregatesFor(column).join(', ');
        this.#addFault(
          `${path}.fn`,
          `'${fn}' does not work with ${column.name} (${column.type}): expected ${known}`,
        );
        return [];
      }
      const of = { kind: 'aggregate', fn, ...(column ? { column } : {}) } as const;
      return [
        { name: element.as ?? (column ? `${fn}_${column.name}` : fn), ...aggregateResult(fn, column), of },
      ];
    });
  }

  #refuseDuplicates(groups: number, columns: readonly OutputColumn[]): void {
    if (this.#body['select'] !== undefined && groups === 0 && columns.every(({ of }) => of.kind === 'column'))
      return;
    for (const [n, { name }] of columns.entries()) {
      if (columns.findIndex((column) => column.name === name) === n) continue;
      const path = n < groups ? `group_by[${n}]` : `aggregate[${n - groups}].as`;
      this.#addFault(path, `the result already has a column '${name}'`);
    }
  }

  #resolveOrder(grouped: boolean, columns: readonly OutputColumn[]): Order[] {
    const seen = new Set<string>();
    return this.#validElements('order_by', ordering).flatMap(({ path, element }) => {
      const { column: name, direction } = element;
      if (seen.has(name)) this.#addFault(`${path}.column`, `'${name.slice(0, 80)}' is listed twice`);
      seen.add(name);
      const by = grouped ? this.#resolveInResult(name, columns, path) : this.#resolveInSurface(name, path);
      return by ? [{ by, descending: direction === 'desc' }] : [];
    });
  }

  #resolveInResult(name: string, columns: readonly OutputColumn[], path: string): OutputColumn | undefined {
    const found = columns.find((column) => column.name === name);
    // If some columns were refused, the name may mean one of them.
    if (found || columns.length < this.#listLength('group_by') + this.#listLength('aggregate')) return found;
    const names = columns.map((column) => column.name);
    const suggestion =
      didYouMean(name, names, (one) => `'${one}'`) || `; the columns are: ${names.join(', ')}`;
    this.#addFault(`${path}.column`, `'${name.slice(0, 80)}' is not a column of the result${suggestion}`);
    return undefined;
  }

  #resolveInSurface(name: string, path: string): OutputColumn | undefined {
    const column = this.#resolveColumn(name, `${path}.column`);
    if (!column || isComparable(column)) return column && toOutputColumn(column);
    this.#addFault(`${path}.column`, `${column.name} cannot be ordered by: ${incomparableReason(column)}`);
    return undefined;
  }
}

const incomparableReason = ({ type }: Column): string =>
  type === 'json' ? 'it is JSON' : 'its texts are long';
