import { useEffect, useId, useState } from 'react';
import { useLocation } from 'wouter';
import { Dialog } from '../../ui/index.tsx';
import css from './command-palette.module.css';
import { usePaletteEntries } from './palette-entries.ts';
import { type PaletteEntry, searchEntries } from './palette-search.ts';

/** A dialog that goes to a view, model, kernel, run or document by a part of its name. */
export default function CommandPalette({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Go to" isOpen onClose={onClose}>
      <Search onClose={onClose} />
    </Dialog>
  );
}

/** A combobox: the focus stays in the input, and the arrow keys choose an option. */
function Search({ onClose }: { onClose: () => void }) {
  const entries = usePaletteEntries();
  const [, navigate] = useLocation();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const found = searchEntries(entries, text);
  const groups = [...Map.groupBy(found, ({ group }) => group)];
  // In the order in which they are shown.
  const shown = groups.flatMap(([, members]) => members);
  const active = Math.min(at, shown.length - 1);
  const optionId = (index: number) => `${id}-${index}`;
  useEffect(() => {
    document.getElementById(optionId(active))?.scrollIntoView({ block: 'nearest' });
  });
  const open = (entry: PaletteEntry | undefined) => {
    if (!entry) return;
    onClose();
    if (entry.isOtherPage) location.assign(entry.href);
    else navigate(entry.href);
  };
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: (active + 1) % shown.length,
    ArrowUp: (active - 1 + shown.length) % shown.length,
    PageDown: Math.min(active + 8, shown.length - 1),
    PageUp: Math.max(active - 8, 0),
  };
  return (
    <>
      <input
        className={css['input']}
        role="combobox"
        aria-label="Search views, models, kernels, runs and documents"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        {...(shown.length > 0 ? { 'aria-activedescendant': optionId(active) } : {})}
        autoComplete="off"
        spellCheck={false}
        placeholder="View, model, kernel, run ..."
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const next = steps[event.key];
          if (event.key === 'Enter') open(shown[active]);
          if (next === undefined || shown.length === 0) return;
          event.preventDefault();
          setAt(next);
        }}
      />
      <div id={`${id}-list`} role="listbox" aria-label="Matches" className={css['list']} tabIndex={-1}>
        {groups.map(([group, members]) => (
          <div key={group} role="group" aria-label={group}>
            <div className={css['group']} aria-hidden="true">
              {group}
            </div>
            {members.map((entry) => {
              const index = shown.indexOf(entry);
              return (
                <div
                  key={`${entry.href} ${entry.title}`}
                  id={optionId(index)}
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === active}
                  className={css['option']}
                  onClick={() => open(entry)}
                  onKeyDown={({ key }) => key === 'Enter' && open(entry)}
                >
                  <span>{entry.title}</span>
                  {entry.detail && <span className={css['detail']}>{entry.detail}</span>}
                </div>
              );
            })}
          </div>
        ))}
      </div>
      <p role="status" className={css['status']}>
        {shown.length === 0 ? 'No results.' : `${shown.length} found.`} Arrow keys choose, Enter opens.
      </p>
    </>
  );
}
