import { useEffect, useState } from 'react';
import css from './demo.module.css';

/** Accepts files dropped anywhere on the page. */
export function DropZone({ take }: { take: (files: readonly File[]) => void }) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const listening = new AbortController();
    const { signal } = listening;
    const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes('Files') === true;
    addEventListener(
      'dragover',
      (event) => {
        if (!hasFiles(event)) return;
        // Otherwise the browser would navigate to the file.
        event.preventDefault();
        setOver(true);
      },
      { signal },
    );
    addEventListener('dragleave', ({ relatedTarget }) => relatedTarget === null && setOver(false), {
      signal,
    });
    addEventListener(
      'drop',
      (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(false);
        const files = [...(event.dataTransfer?.files ?? [])];
        if (files.length > 0) take(files);
      },
      { signal },
    );
    return () => listening.abort();
  }, [take]);
  return isOver ? <div className={css['drop']}>Drop the model to load it</div> : null;
}
