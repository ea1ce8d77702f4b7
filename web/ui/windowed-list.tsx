import { type ReactNode, useRef } from 'react';
import { ListFilter, useListFilter } from './list-filter.tsx';
import css from './list.module.css';
import { useWindowedRows } from './windowed-rows.ts';

/**
 * A list of links or short blocks with a filter. Of a long list, only the items in view are in the document; it then
 * scrolls within its box.
 */
export function WindowedList<Item>(props: {
  label: string;
  /** What is listed, as in `chats`. */
  what: string;
  items: readonly Item[];
  keyOf: (item: Item) => string;
  /** The text of an item that is searched. */
  textOf: (item: Item) => string;
  /** Contents of the list element of an item. */
  children: (item: Item) => ReactNode;
  className?: string | undefined;
  /** Height of an item that was not measured yet. */
  estimatePx: number;
}) {
  const { label, what, items, keyOf, textOf, children, className, estimatePx } = props;
  const box = useRef<HTMLDivElement>(null);
  const { shown, filter, filterProps } = useListFilter(items, textOf);
  const { isWindowed, parts, measure, focusHandlers } = useWindowedRows({
    count: shown.length,
    keyOf: (index) => keyOf(shown[index] as Item),
    scroller: box,
    estimatePx,
    contentKey: filter,
  });
  return (
    <div>
      {filterProps && <ListFilter what={what} {...filterProps} />}
      <div
        ref={box}
        className={css['listWindow']}
        {...(isWindowed ? { role: 'region', 'aria-label': label, tabIndex: 0 } : {})}
      >
        <ul aria-label={label} className={className} {...focusHandlers}>
          {parts.map((part) =>
            'gapPx' in part ? (
              <li key={part.key} className={css['gap']} aria-hidden="true" style={{ height: part.gapPx }} />
            ) : (
              <li
                key={part.key}
                ref={measure}
                data-index={part.index}
                {...(isWindowed ? { 'aria-posinset': part.index + 1, 'aria-setsize': shown.length } : {})}
              >
                {children(shown[part.index] as Item)}
              </li>
            ),
          )}
        </ul>
        {shown.length === 0 && items.length > 0 && (
          <p className={css['noMatch']}>Nothing listed here contains “{filter}”. Clear the filter.</p>
        )}
      </div>
    </div>
  );
}
