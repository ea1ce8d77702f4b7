import { useSyncExternalStore } from 'react';
import css from './demo.module.css';
import { offline, type OfflineState } from './offline.ts';

const texts: Readonly<Record<OfflineState, string | undefined>> = {
  unavailable: undefined,
  saving: 'Saving this page for offline use ...',
  ready: 'This page is saved in this browser and works offline.',
};

/** Whether the page can be opened without a network. */
export function OfflineNote() {
  const text = texts[useSyncExternalStore(offline.subscribe, offline.get)];
  return (
    <span className={css['quiet']} role="status">
      {text}
    </span>
  );
}
