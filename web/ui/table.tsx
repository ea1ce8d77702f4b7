import {
  type CSSProperties,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { ListFilter, useListFilter } from './list-filter.tsx';
import listCss from './list.module.css';
import css from './parts.module.css';
import { useWindowedRows } from './windowed-rows.ts';

export interface Column<Item> {
  readonly key: string;
  readonly head: ReactNode;
  readonly cell: (item: Item) => ReactNode;
  readonly number?: boolean;
}

interface TableProps<Item> {
  readonly caption: string;
  readonly columns: readonly Column<Item>[];
  readonly rows: readonly Item[];
  readonly keyOf: (item: Item, index: number) => string;
  readonly isSelected?: (item: Item) => boolean;
  /** Puts a filter above a long table. */
  readonly filter?: {
    /** What is listed, as in `tasks`. */
    readonly what: string;
    /** The text of a row that is searched. */
    readonly textOf: (item: Item) => string;
  };
}

const rowEstimatePx = 36;

/**
 * A table that scrolls horizontally when the page is too narrow. Of a long table, only the rows in view are in the
 * document; it then scrolls within its box.
 */
export function Table<Item>(props: TableProps<Item>) {
  const { caption, columns, rows, keyOf, isSelected, filter } = props;
  const box = useRef<HTMLDivElement>(null);
  const { shown, filter: filterText, filterProps } = useListFilter(rows, filter?.textOf);
  const { isWindowed, parts, measure, focusHandlers } = useWindowedRows({
    count: shown.length,
    keyOf: (index) => keyOf(shown[index] as Item, index),
    scroller: box,
    estimatePx: rowEstimatePx,
    contentKey: filterText,
  });
  const head = useRef<HTMLTableRowElement>(null);
  const widths = useColumnWidths(box, head, isWindowed, columns.map(({ key }) => key).join(' '));
  // Rows from all of the list are laid out once, so that columns fit them too.
  const samples = isWindowed && !widths ? sampleIndexes(shown.length, parts) : [];
  const classOf = ({ number }: Column<Item>) => (number ? css['number'] : undefined);
  const rowOf = (index: number, key: string) => {
    const row = shown[index] as Item;
    return (
      <tr
        key={key}
        ref={measure}
        data-index={index}
        {...(isWindowed ? { 'aria-rowindex': index + 2 } : {})}
        {...(isSelected?.(row) ? { 'aria-selected': true } : {})}
      >
        {columns.map((column) => (
          <td key={column.key} className={classOf(column)}>
            {column.cell(row)}
          </td>
        ))}
      </tr>
    );
  };
  return (
    <div>
      {filter && filterProps && <ListFilter what={filter.what} {...filterProps} />}
      {/* A scrollable region must be focusable by keyboard. */}
      <div
        ref={box}
        className={isWindowed ? `${css['tableBox']} ${listCss['window']}` : css['tableBox']}
        role="region"
        aria-label={caption}
        tabIndex={0}
      >
        <table
          className={css['table']}
          {...(isWindowed ? { 'aria-rowcount': shown.length + 1 } : {})}
          {...(widths ? { style: fixedLayout(widths) } : {})}
        >
          <caption className={css['visuallyHidden']}>{caption}</caption>
          {widths && (
            <colgroup>
              {columns.map(({ key }, index) => (
                <col key={key} style={{ width: widths[index] }} />
              ))}
            </colgroup>
          )}
          <thead>
            <tr ref={head} {...(isWindowed ? { 'aria-rowindex': 1 } : {})}>
              {columns.map((column) => (
                <th key={column.key} scope="col" className={classOf(column)}>
                  {column.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody {...focusHandlers}>
            {parts.map((part) =>
              'gapPx' in part ? (
                <tr key={part.key} aria-hidden="true" style={{ height: part.gapPx }} />
              ) : (
                rowOf(part.index, part.key)
              ),
            )}
            {samples.map((index) => (
              <tr key={`sample ${index}`} aria-hidden="true">
                {columns.map((column) => (
                  <td key={column.key} className={classOf(column)}>
                    {column.cell(shown[index] as Item)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {shown.length === 0 && rows.length > 0 && (
          <p className={listCss['noMatch']}>Nothing listed here contains “{filterText}”. Clear the filter.</p>
        )}
      </div>
    </div>
  );
}

const fixedLayout = (widths: readonly number[]): CSSProperties => ({
  tableLayout: 'fixed',
  width: `max(100%, ${widths.reduce((sum, width) => sum + width, 0)}px)`,
});

const maxSamples = 24;

/** Indexes spread over the list, of rows that are not in the document. */
function sampleIndexes(count: number, parts: readonly object[]): number[] {
  const present = new Set(parts.map((part) => ('index' in part ? part.index : undefined)));
  const spread = Array.from({ length: maxSamples }, (_, at) => Math.floor(((at + 0.5) * count) / maxSamples));
  return spread.filter((index) => !present.has(index));
}

/**
 * Widths of the columns of a long table, in pixels, by the first layout of its rows: otherwise columns would change
 * their width while the table is scrolled. Undefined until the layout, and for other tables.
 */
function useColumnWidths(
  box: RefObject<HTMLElement | null>,
  head: RefObject<HTMLTableRowElement | null>,
  isWindowed: boolean,
  columnKeys: string,
): readonly number[] | undefined {
  const [measured, setMeasured] = useState<{ columnKeys: string; widths: readonly number[] }>();
  const isCurrent = isWindowed && measured?.columnKeys === columnKeys;
  useLayoutEffect(() => {
    if (!isWindowed || isCurrent || !head.current) return;
    const widths = Array.from(head.current.cells, (cell) => cell.getBoundingClientRect().width);
    setMeasured({ columnKeys, widths });
  }, [head, isWindowed, isCurrent, columnKeys]);
  useEffect(() => {
    const element = box.current;
    if (!element || !isWindowed) return undefined;
    let widthPx = element.clientWidth;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth === widthPx) return;
      widthPx = element.clientWidth;
      setMeasured(undefined);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [box, isWindowed]);
  return isCurrent ? measured.widths : undefined;
}
