import { useCallback } from 'react';
import { useSearchParams } from 'wouter';

/** A choice that stands in the URL, so that a link or a reload brings it back. @param usual is not written there */
export function useUrlState(name: string, usual = ''): readonly [string, (next: string) => void] {
  const [search, setSearch] = useSearchParams();
  const value = search.get(name) ?? usual;
  const set = useCallback(
    (next: string) => {
      setSearch(
        (before) => {
          const after = new URLSearchParams(before);
          if (next === usual) after.delete(name);
          else after.set(name, next);
          return after;
        },
        { replace: true },
      );
    },
    [name, usual, setSearch],
  );
  return [value, set];
}
