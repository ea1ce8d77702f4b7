import { useCallback, useEffect, useState } from 'react';
import { type Settings, searchFromSettings, settingsFromSearch } from './settings.ts';

/** The settings, kept in the URL so that links and reloads restore them. */
export function useSettings(): readonly [Settings, (change: Partial<Settings>) => void] {
  const [settings, setSettings] = useState(() => settingsFromSearch(location.search));
  useEffect(() => {
    const search = searchFromSettings(settings);
    if (search !== location.search)
      history.replaceState(null, '', `${location.pathname}${search}${location.hash}`);
  }, [settings]);
  const change = useCallback(
    (changes: Partial<Settings>) => setSettings((before) => ({ ...before, ...changes })),
    [],
  );
  return [settings, change];
}
