import { defaultRangeExtractor, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import {
  type FocusEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';

/** Lists up to this length are in the document as a whole. */
export const maxUnwindowed = 50;

/** A row of the list, or the room of the rows that are not in the document. */
export type RowOrGap =
  | { readonly index: number; readonly key: string }
  | { readonly gapPx: number; readonly key: string };

interface WindowedRows {
  /** Whether the list is long enough that only the rows in view are in the document. */
  readonly isWindowed: boolean;
  readonly parts: readonly RowOrGap[];
  /** `ref` of each row, which needs `data-index`. */
  readonly measure: ((element: HTMLElement | null) => void) | undefined;
  /** Handlers of the element that contains the rows: the row with the focus stays in the document. */
  readonly focusHandlers: {
    readonly onFocus: (event: FocusEvent<HTMLElement>) => void;
    readonly onBlur: () => void;
  };
}

/**
 * The rows of a list that are in the document: those in view of a scrolled element, some around them, the one that has
 * the focus, and its neighbors, so that the Tab key goes on from it.
 *
 * @param of.keyOf stable key of the row at an index
 * @param of.estimatePx height of a row that was not measured yet
 * @param of.contentKey a change scrolls to the beginning, for example the text of a filter
 */
export function useWindowedRows(of: {
  count: number;
  keyOf: (index: number) => string;
  scroller: RefObject<HTMLElement | null>;
  estimatePx: number;
  contentKey?: string;
}): WindowedRows {
  const { count, keyOf, scroller, estimatePx, contentKey } = of;
  const isWindowed = count > maxUnwindowed;
  const focused = useRef<number>(undefined);
  const rowPx = useMeanHeight(scroller, isWindowed) ?? estimatePx;
  // oxlint-disable-next-line react/incompatible-library -- nothing of it is passed to memoized components
  const virtualizer: Virtualizer<HTMLElement, HTMLElement> = useVirtualizer<HTMLElement, HTMLElement>({
    count,
    enabled: isWindowed,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    getItemKey: keyOf,
    overscan: 8,
    initialRect: { width: 0, height: 800 },
    rangeExtractor: (range) => {
      const inView = defaultRangeExtractor(range);
      const at = focused.current;
      if (at === undefined || at >= range.count) return inView;
      const kept = [at - 1, at, at + 1].filter((index) => index >= 0 && index < range.count);
      return [...new Set([...inView, ...kept])].sort((a, b) => a - b);
    },
  });
  // The browser keeps what is in view where it is; a correction by script would end a smooth scroll before its target.
  virtualizer.shouldAdjustScrollPositionOnItemSizeChange = () => false;
  useEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
  }, [scroller, contentKey]);
  const onFocus = useCallback(({ target }: FocusEvent<HTMLElement>) => {
    const index = target.closest<HTMLElement>('[data-index]')?.dataset['index'];
    focused.current = index === undefined ? undefined : Number(index);
  }, []);
  const onBlur = useCallback(() => {
    focused.current = undefined;
  }, []);
  return {
    isWindowed,
    parts: isWindowed
      ? withGaps(virtualizer, keyOf)
      : Array.from({ length: count }, (_, index) => ({ index, key: keyOf(index) })),
    measure: isWindowed ? virtualizer.measureElement : undefined,
    focusHandlers: { onFocus, onBlur },
  };
}

/**
 * Mean height of the first rows, in pixels; undefined before their layout. With it as the height of rows that were not
 * measured yet, the length of the scrolled content hardly changes while it is scrolled.
 */
function useMeanHeight(scroller: RefObject<HTMLElement | null>, isWindowed: boolean): number | undefined {
  const [mean, setMean] = useState<number>();
  useLayoutEffect(() => {
    if (!isWindowed || mean !== undefined || !scroller.current) return;
    const rows = [...scroller.current.querySelectorAll<HTMLElement>('[data-index]')];
    const total = rows.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0);
    if (total > 0) setMean(total / rows.length);
  }, [scroller, isWindowed, mean]);
  return mean;
}

function withGaps(
  virtualizer: Virtualizer<HTMLElement, HTMLElement>,
  keyOf: (index: number) => string,
): RowOrGap[] {
  const parts: RowOrGap[] = [];
  let end = 0;
  const addGap = (to: number, key: string) => {
    if (to - end > 0.5) parts.push({ gapPx: to - end, key: `gap ${key}` });
  };
  for (const { index, start, size } of virtualizer.getVirtualItems()) {
    const key = keyOf(index);
    addGap(start, `before ${key}`);
    parts.push({ index, key });
    end = start + size;
  }
  addGap(virtualizer.getTotalSize(), 'at the end');
  return parts;
}
