import { useEffect, useState } from 'react';
import css from './demo.module.css';

/** Accepts files dropped anywhere on the page. */
export function DropZone({ onFiles }: { onFiles: (files: readonly File[]) => void }) {
  const [isDragging, setDragging] = useState(false);
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
        setDragging(true);
      },
      { signal },
    );
    addEventListener('dragleave', ({ relatedTarget }) => relatedTarget === null && setDragging(false), {
      signal,
    });
    addEventListener(
      'drop',
      (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setDragging(false);
        const files = [...(event.dataTransfer?.files ?? [])];
        if (files.length > 0) onFiles(files);
      },
      { signal },
    );
    return () => listening.abort();
  }, [onFiles]);
  return isDragging ? <div className={css['drop']}>Drop the model to load it</div> : null;
}
