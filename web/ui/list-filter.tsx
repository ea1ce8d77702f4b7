import { useEffect, useMemo, useRef, useState } from 'react';
import { formatNumber } from './format.ts';
import css from './list.module.css';
import partsCss from './parts.module.css';

/** Shorter lists have no filter. */
const minFilteredLength = 20;

/** The search field above a long list, with the number of its matches. The key `/` moves the focus to it. */
export function ListFilter(props: {
  /** What is listed, as in `tasks`. */
  what: string;
  value: string;
  onChange: (value: string) => void;
  shown: number;
  total: number;
}) {
  const { what, value, onChange, shown, total } = props;
  const input = useRef<HTMLInputElement>(null);
  useFocusKey(input);
  return (
    <div className={css['filter']}>
      <input
        ref={input}
        type="search"
        className={partsCss['input']}
        aria-label={`Filter the ${what}`}
        aria-keyshortcuts="/"
        placeholder={`Filter the ${what}: press /`}
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
      <span className={css['count']} role="status">
        {shown === total ? formatNumber(total) : `${formatNumber(shown)} of ${formatNumber(total)}`}
      </span>
    </div>
  );
}

/** Where several filters are on a page, the first one gets the focus. */
function useFocusKey(input: { readonly current: HTMLInputElement | null }): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { key, target, defaultPrevented, ctrlKey, metaKey, altKey } = event;
      if (key !== '/' || defaultPrevented || ctrlKey || metaKey || altKey) return;
      if (target instanceof HTMLElement && isTyping(target)) return;
      if (document.querySelector('dialog[open]') || !input.current?.checkVisibility()) return;
      event.preventDefault();
      input.current.focus();
      input.current.select();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [input]);
}

const isTyping = (target: HTMLElement): boolean =>
  target.isContentEditable || target.matches('input, textarea, select');

/** Whether every word of a filter is in a text, in any case and order. */
export function matchesWords(text: string, filter: string): boolean {
  const lower = text.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/**
 * The items that match a filter, and the props of its {@link ListFilter}.
 * @param textOf the text of an item that is searched; undefined for a list without a filter
 */
export function useListFilter<Item>(
  items: readonly Item[],
  textOf: ((item: Item) => string) | undefined,
): {
  readonly shown: readonly Item[];
  readonly filter: string;
  /** Undefined for a list that is too short for a filter. */
  readonly filterProps: Omit<Parameters<typeof ListFilter>[0], 'what'> | undefined;
} {
  const [filter, setFilter] = useState('');
  const trimmed = textOf ? filter.trim() : '';
  const shown = useMemo(
    () => (trimmed === '' || !textOf ? items : items.filter((item) => matchesWords(textOf(item), trimmed))),
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- `textOf` is a new function at each render; what it reads changes with the items
    [items, trimmed],
  );
  const hasFilter = textOf !== undefined && (items.length > minFilteredLength || filter !== '');
  return {
    shown,
    filter: trimmed,
    filterProps: hasFilter
      ? { value: filter, onChange: setFilter, shown: shown.length, total: items.length }
      : undefined,
  };
}
