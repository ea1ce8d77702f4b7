import { useEffect } from 'react';

/** Asks for confirmation before the page is closed with unsaved changes. */
export function useUnsavedChangesWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return undefined;
    const confirmLeave = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', confirmLeave);
    return () => removeEventListener('beforeunload', confirmLeave);
  }, [isChanged]);
}
