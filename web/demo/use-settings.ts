import { useCallback, useState } from 'react';
import { type Settings, searchOf, settingsOf } from './settings.ts';

/** The settings, kept in the URL so that links and reloads restore them. */
export function useSettings(): readonly [Settings, (change: Partial<Settings>) => void] {
  const [settings, setSettings] = useState(() => settingsOf(location.search));
  const change = useCallback((some: Partial<Settings>) => {
    setSettings((before) => {
      const after = { ...before, ...some };
      history.replaceState(null, '', `${location.pathname}${searchOf(after)}${location.hash}`);
      return after;
    });
  }, []);
  return [settings, change];
}
