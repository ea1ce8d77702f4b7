import type { z } from 'zod';
import { didYouMean } from '../../words/nearest.ts';
import type { ObserveViolation } from '../errors.ts';
import { findSurface, noSurface } from '../surfaces/index.ts';
import type { Column, Surface } from '../types.ts';
import { digestOf, readCursor } from './cursor.ts';
import { aggregatesFor, bucketsFor, isComparable, operatorsFor, resultOf } from './kinds.ts';
import { answered, completeOrder } from './order.ts';
import { aggregate, condition, grouping, most, observeQuery, ordering, rowLimits } from './shape.ts';
import type { Answered, CheckedCondition, CheckedQuery, Order } from './types.ts';
import { valuesOf } from './values.ts';
import { refused, violationsOf } from './violations.ts';

export type { CheckedQuery } from './types.ts';

/** Validates a query and resolves its names. @throws ObserveError invalid, with all violations */
export function checked(body: unknown): CheckedQuery {
  const faults: ObserveViolation[] = [];
  const parsed = observeQuery.safeParse(body, { reportInput: false });
  if (!parsed.success) faults.push(...parsed.error.issues.flatMap(violationsOf));
  const given: Readonly<Record<string, unknown>> =
    typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  const surface = typeof given['surface'] === 'string' ? findSurface(given['surface']) : undefined;
  if (!surface && typeof given['surface'] === 'string')
    faults.push({ path: 'surface', message: noSurface(given['surface']) });
  if (!surface) throw refused(faults);

  const { grouped, columns, where, order } = new Checker(surface, given, faults).all();
  if (!parsed.success || faults.length > 0) throw refused(faults);
  const query = parsed.data;
  const digest = digestOf(query);
  const about = { query, surface, grouped, columns, where, order, digest };
  const result = { ...about, limit: query.limit ?? rowLimits.usual };
  if (query.cursor === undefined) return result;
  const page = readCursor(query.cursor, about);
  if (typeof page === 'string') throw refused([{ path: 'cursor', message: page }]);
  return { ...result, ...page };
}

/** Validates the parts of a query that have the right shape, and resolves the names in them. */
class Checker {
  readonly #surface: Surface;
  readonly #given: Readonly<Record<string, unknown>>;
  readonly #faults: ObserveViolation[];

  constructor(surface: Surface, given: Readonly<Record<string, unknown>>, faults: ObserveViolation[]) {
    this.#surface = surface;
    this.#given = given;
    this.#faults = faults;
  }

  all() {
    const where = this.#where();
    const groups = this.#groups();
    const aggregates = this.#aggregates();
    const selected = this.#selected();
    const grouped = this.#given['group_by'] !== undefined || this.#given['aggregate'] !== undefined;
    if (grouped && this.#given['select'] !== undefined)
      this.#fault('select', 'cannot be combined with group_by and aggregate, which define the columns');
    const columns = grouped ? [...groups, ...aggregates] : selected;
    this.#refuseTwice(grouped ? groups.length : 0, columns);
    const order = completeOrder(this.#surface, { grouped, groups }, this.#order(grouped, columns));
    return { grouped, columns, where, order };
  }

  #fault(path: string, message: string): void {
    this.#faults.push({ path, message });
  }

  /** Elements of a list that have the right shape. The schema has already reported the others. */
  #each<Schema extends z.ZodType>(name: keyof typeof most, schema: Schema) {
    const list = this.#given[name];
    if (!Array.isArray(list)) return [];
    return list.slice(0, most[name]).flatMap((element: unknown, n) => {
      const { success, data } = schema.safeParse(element);
      return success ? [{ path: `${name}[${n}]`, element: data }] : [];
    });
  }

  #asked(name: 'group_by' | 'aggregate'): number {
    const list = this.#given[name];
    return Array.isArray(list) ? list.length : 0;
  }

  #column(name: string, path: string): Column | undefined {
    const { columns, name: surface } = this.#surface;
    const found = columns.find((column) => column.name === name);
    if (found) return found;
    const near = didYouMean(
      name,
      columns.map((column) => column.name),
      (one) => `'${one}'`,
    );
    const hint = near || `; the columns are: ${columns.map((column) => column.name).join(', ')}`;
    this.#fault(path, `'${name.slice(0, 80)}' is not a column of ${surface}${hint}`);
    return undefined;
  }

  #where(): CheckedCondition[] {
    return this.#each('where', condition).flatMap(({ path, element }) => {
      const column = this.#column(element.column, `${path}.column`);
      if (!column) return [];
      const { op } = element;
      const known = operatorsFor(column);
      if (!known.includes(op)) {
        const kind = column.readOnly ? 'long texts' : column.type;
        this.#fault(
          `${path}.op`,
          `'${op}' does not work with ${column.name} (${kind}): expected ${known.join(', ')}`,
        );
        return [];
      }
      const values = valuesOf(column, element, (at, message) => this.#fault(`${path}.value${at}`, message));
      return [{ column, op, values }];
    });
  }

  #selected(): Answered[] {
    if (this.#given['select'] === undefined)
      return this.#surface.columns.filter((column) => !column.readOnly).map((column) => answered(column));
    const { shape } = observeQuery;
    const seen = new Set<string>();
    return this.#each('select', shape.select.unwrap().element).flatMap(({ path, element }) => {
      const column = this.#column(element, path);
      if (column && seen.has(column.name)) this.#fault(path, `'${column.name}' is listed twice`);
      seen.add(element);
      return column ? [answered(column)] : [];
    });
  }

  #groups(): Answered[] {
    return this.#each('group_by', grouping).flatMap(({ path, element }) => {
      const { column: name, bucket } = typeof element === 'string' ? { column: element } : element;
      const column = this.#column(name, typeof element === 'string' ? path : `${path}.column`);
      if (!column) return [];
      if (!isComparable(column)) {
        this.#fault(path, `${column.name} cannot be grouped by: ${whyNot(column)}`);
        return [];
      }
      if (bucket !== undefined && !bucketsFor(column).includes(bucket)) {
        this.#fault(`${path}.bucket`, `${column.name} is not a time column: leave out the bucket`);
        return [];
      }
      return [answered(column, bucket)];
    });
  }

  #aggregates(): Answered[] {
    return this.#each('aggregate', aggregate).flatMap(({ path, element }) => {
      const { fn, column: name } = element;
      if (name === undefined && fn !== 'count') {
        this.#fault(`${path}.column`, `is missing: ${fn} needs a column`);
        return [];
      }
      const column = name === undefined ? undefined : this.#column(name, `${path}.column`);
      if (name !== undefined && !column) return [];
      if (column && !aggregatesFor(column).includes(fn)) {
        const known = aggregatesFor(column).join(', ');
        this.#fault(
          `${path}.fn`,
          `'${fn}' does not work with ${column.name} (${column.type}): expected ${known}`,
        );
        return [];
      }
      const of = { kind: 'aggregate', fn, ...(column ? { column } : {}) } as const;
      return [{ name: element.as ?? (column ? `${fn}_${column.name}` : fn), ...resultOf(fn, column), of }];
    });
  }

  #refuseTwice(groups: number, columns: readonly Answered[]): void {
    if (
      this.#given['select'] !== undefined &&
      groups === 0 &&
      columns.every(({ of }) => of.kind === 'column')
    )
      return;
    for (const [n, { name }] of columns.entries()) {
      if (columns.findIndex((column) => column.name === name) === n) continue;
      const path = n < groups ? `group_by[${n}]` : `aggregate[${n - groups}].as`;
      this.#fault(path, `the result already has a column '${name}'`);
    }
  }

  #order(grouped: boolean, columns: readonly Answered[]): Order[] {
    const seen = new Set<string>();
    return this.#each('order_by', ordering).flatMap(({ path, element }) => {
      const { column: name, direction } = element;
      if (seen.has(name)) this.#fault(`${path}.column`, `'${name.slice(0, 80)}' is listed twice`);
      seen.add(name);
      const by = grouped ? this.#ofAnswer(name, columns, path) : this.#ofSurface(name, path);
      return by ? [{ by, descending: direction === 'desc' }] : [];
    });
  }

  #ofAnswer(name: string, columns: readonly Answered[], path: string): Answered | undefined {
    const found = columns.find((column) => column.name === name);
    // If some columns were refused, the name may mean one of them.
    if (found || columns.length < this.#asked('group_by') + this.#asked('aggregate')) return found;
    const names = columns.map((column) => column.name);
    const near = didYouMean(name, names, (one) => `'${one}'`) || `; the columns are: ${names.join(', ')}`;
    this.#fault(`${path}.column`, `'${name.slice(0, 80)}' is not a column of the result${near}`);
    return undefined;
  }

  #ofSurface(name: string, path: string): Answered | undefined {
    const column = this.#column(name, `${path}.column`);
    if (!column || isComparable(column)) return column && answered(column);
    this.#fault(`${path}.column`, `${column.name} cannot be ordered by: ${whyNot(column)}`);
    return undefined;
  }
}

const whyNot = ({ type }: Column): string => (type === 'json' ? 'it is JSON' : 'its texts are long');
