import { useCallback, useState } from 'react';
import { type Settings, searchFromSettings, settingsFromSearch } from './settings.ts';

/** The settings, kept in the URL so that links and reloads restore them. */
export function useSettings(): readonly [Settings, (change: Partial<Settings>) => void] {
  const [settings, setSettings] = useState(() => settingsFromSearch(location.search));
  const change = useCallback((changes: Partial<Settings>) => {
    setSettings((before) => {
      const after = { ...before, ...changes };
      history.replaceState(null, '', `${location.pathname}${searchFromSettings(after)}${location.hash}`);
      return after;
    });
  }, []);
  return [settings, change];
}
