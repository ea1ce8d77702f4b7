import { useState } from 'react';
import { formatBytes, formatNumber } from '../../../ui/format.ts';
import { Badge, Button, Dialog, FaultNote, Field } from '../../../ui/index.tsx';
import { usePurge } from './recorder.ts';
import { TombstoneFacts } from './tombstone-facts.tsx';
import type { Rack } from './types.ts';

/** Deletes the history of a rack, after the user types its name. */
export function PurgeButton({ rack }: { rack: Rack }) {
  const [isOpen, setOpen] = useState(false);
  const [typedName, setTyped] = useState('');
  const purge = usePurge(rack.id);
  const close = () => {
    setOpen(false);
    setTyped('');
    purge.reset();
  };
  const isConfirmed = typedName.trim() === rack.id;
  return (
    <>
      <Button kind="danger" aria-label={`Purge the rack ${rack.id}`} onClick={() => setOpen(true)}>
        Purge
      </Button>
      <Dialog title={`Purge the rack ${rack.id}`} isOpen={isOpen} onClose={close}>
        {purge.data ? (
          <>
            <p role="status">
              <Badge tone="good">purged</Badge> The history was deleted from the data directory.
            </p>
            <TombstoneFacts tombstone={purge.data} />
            <div>
              <Button kind="primary" onClick={close}>
                Close
              </Button>
            </div>
          </>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (isConfirmed) purge.mutate();
            }}
          >
            <p>
              All events of this rack ({formatNumber(rack.events)}, {formatBytes(rack.bytes)}) are deleted
              from disk and cannot be restored. The rack stays {rack.armed ? 'armed' : 'disarmed'}.
            </p>
            <Field label={`Type ${rack.id} to confirm`}>
              {(control) => (
                <input
                  {...control}
                  autoComplete="off"
                  spellCheck={false}
                  value={typedName}
                  onChange={({ target }) => setTyped(target.value)}
                />
              )}
            </Field>
            {purge.isError && <FaultNote error={purge.error} />}
            <p>
              <Button type="submit" kind="danger" busy={purge.isPending} disabled={!isConfirmed}>
                Delete the history
              </Button>{' '}
              <Button onClick={close}>Cancel</Button>
            </p>
          </form>
        )}
      </Dialog>
    </>
  );
}
