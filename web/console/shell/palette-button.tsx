import { lazy, Suspense, useEffect, useState } from 'react';
import { createPortal } from 'react-dom';
import css from './shell.module.css';

const CommandPalette = lazy(() => import('./command-palette.tsx'));

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** Opens the command palette: by Ctrl-K, on Apple's systems Cmd-K, or by its button. It is loaded on first use. */
export function PaletteButton() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const openOnKey = (event: KeyboardEvent) => {
      const { key, altKey, shiftKey, ctrlKey, metaKey } = event;
      if (key.toLowerCase() !== 'k' || altKey || shiftKey || !(isMac ? metaKey : ctrlKey)) return;
      event.preventDefault();
      // Another dialog has to be answered first.
      if (!document.querySelector('dialog[open]')) setOpen(true);
    };
    document.addEventListener('keydown', openOnKey);
    return () => document.removeEventListener('keydown', openOnKey);
  }, []);
  return (
    <>
      <button
        type="button"
        className={css['search']}
        aria-haspopup="dialog"
        aria-keyshortcuts={isMac ? 'Meta+K' : 'Control+K'}
        onClick={() => setOpen(true)}
      >
        Go to <kbd>{isMac ? '⌘ K' : 'Ctrl K'}</kbd>
      </button>
      {/* Outside of the navigation, which a narrow screen hides. */}
      {isOpen &&
        createPortal(
          <Suspense fallback={null}>
            <CommandPalette onClose={() => setOpen(false)} />
          </Suspense>,
          document.body,
        )}
    </>
  );
}
