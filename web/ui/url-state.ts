import { useCallback } from 'react';
import { useSearchParams } from 'wouter';

/**
 * State kept in a URL search parameter, so that links and reloads restore it. @param usual default value; not written
 * to the URL
 */
export function useUrlState(name: string, defaultValue = ''): readonly [string, (next: string) => void] {
  const [search, setSearch] = useSearchParams();
  const value = search.get(name) ?? defaultValue;
  const set = useCallback(
    (next: string) => {
      setSearch(
        (before) => {
          const after = new URLSearchParams(before);
          if (next === defaultValue) after.delete(name);
          else after.set(name, next);
          return after;
        },
        { replace: true },
      );
    },
    [name, defaultValue, setSearch],
  );
  return [value, set];
}
