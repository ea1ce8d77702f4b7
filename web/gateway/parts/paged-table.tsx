import { type ReactNode, useDeferredValue } from 'react';
import { type Column, Button, Empty, Field, Table } from '../../ui/index.tsx';
import { useSearchParams } from 'wouter';
import { useUrlState } from '../../ui/url-state.ts';
import { maxUnwindowed } from '../../ui/windowed-rows.ts';
import css from '../gateway.module.css';
import { formatCount } from '../format.ts';

/** Rows of one page: a longer table scrolls within its box. */
const pageSize = maxUnwindowed;

export interface SortOrder<Item> {
  readonly name: string;
  readonly title: string;
  readonly compare: (one: Item, other: Item) => number;
}

/** A table with a search, an order and pages, whose state is in the URL. */
export function PagedTable<Item>(props: {
  caption: string;
  /** The plural of the rows: `keys`. */
  what: string;
  rows: readonly Item[];
  columns: readonly Column<Item>[];
  keyOf: (item: Item) => string;
  /** What the search finds a row by. */
  textOf: (item: Item) => string;
  orders?: readonly SortOrder<Item>[];
  /** More controls, beside the search. */
  filters?: ReactNode;
  empty: ReactNode;
}) {
  const { caption, what, rows, columns, keyOf, textOf, orders = [], filters, empty } = props;
  const [parameters, setParameters] = useSearchParams();
  const search = parameters.get('q') ?? '';
  const [order, setOrder] = useUrlState('order', orders[0]?.name ?? '');
  const pageText = parameters.get('page') ?? '1';
  /** One change of the URL: a second one in the same event would replace it. */
  const show = (next: { search?: string; page?: number }) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before);
        if (next.search !== undefined) after.set('q', next.search);
        after.set('page', String(next.page ?? 1));
        if (after.get('q') === '') after.delete('q');
        if (after.get('page') === '1') after.delete('page');
        return after;
      },
      { replace: true },
    );
  const words = useDeferredValue(search).toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    words.length === 0 ? rows : rows.filter((row) => includesAll(textOf(row).toLowerCase(), words));
  const compare = orders.find(({ name }) => name === order)?.compare;
  const sorted = compare ? found.toSorted(compare) : found;
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  const page = Math.min(pages, Math.max(1, Math.trunc(Number(pageText)) || 1));
  const shown = sorted.slice((page - 1) * pageSize, page * pageSize);
  if (rows.length === 0 && filters === undefined) return empty;
  return (
    <>
      <div className={css['filters']}>
        <Field label={`Search ${what}`}>
          {(control) => (
            <input
              {...control}
              type="search"
              value={search}
              onChange={({ target }) => show({ search: target.value })}
            />
          )}
        </Field>
        {orders.length > 1 && (
          <Field label="Order by">
            {(control) => (
              <select {...control} value={order} onChange={({ target }) => setOrder(target.value)}>
                {orders.map(({ name, title }) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        {filters}
      </div>
      {rows.length === 0 && empty}
      {rows.length > 0 && sorted.length === 0 && (
        <Empty title={`None of the ${formatCount(rows.length)} ${what} has this text.`}>
          <Button onClick={() => show({ search: '' })}>Clear the search</Button>
        </Empty>
      )}
      {shown.length > 0 && <Table caption={caption} rows={shown} columns={columns} keyOf={keyOf} />}
      {sorted.length > 0 && (
        <div className={css['pages']}>
          <span className={css['muted']} role="status">
            {pages === 1
              ? sorted.length === 1
                ? `1 ${what.slice(0, -1)}`
                : `${formatCount(sorted.length)} ${what}`
              : `${formatCount((page - 1) * pageSize + 1)} to ${formatCount((page - 1) * pageSize + shown.length)} of ${formatCount(sorted.length)} ${what}`}
          </span>
          {pages > 1 && (
            <span className={css['actions']}>
              <Button disabled={page === 1} onClick={() => show({ page: page - 1 })}>
                Previous page
              </Button>
              <Button disabled={page === pages} onClick={() => show({ page: page + 1 })}>
                Next page
              </Button>
            </span>
          )}
        </div>
      )}
    </>
  );
}

const includesAll = (text: string, words: readonly string[]): boolean =>
  words.every((word) => text.includes(word));

/** An order of texts, ignoring case. */
export const byText =
  <Item,>(textOf: (item: Item) => string) =>
  (one: Item, other: Item): number =>
    textOf(one).localeCompare(textOf(other), 'en', { sensitivity: 'base', numeric: true });

/** The largest first. */
export const byNumber =
  <Item,>(numberOf: (item: Item) => number) =>
  (one: Item, other: Item): number =>
    numberOf(other) - numberOf(one);
