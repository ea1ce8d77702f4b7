import { useId, useState } from 'react';
import { Button, Dialog, FaultNote, Field } from '../../ui/index.tsx';
import css from './agents.module.css';

const maxNote = 2000;

/** Asks for confirmation and an optional note, which the journal keeps; the agent of a task that waits is told it. */
export function DiscardDialog(props: {
  id: string;
  open: boolean;
  busy: boolean;
  error: unknown;
  onDiscard: (note: string) => void;
  onClose: () => void;
}) {
  const { id, open, busy, error, onDiscard, onClose } = props;
  const [note, setNote] = useState('');
  const form = useId();
  // The host counts code points.
  const length = Array.from(note).length;
  const fault = length > maxNote ? `expected at most ${maxNote} characters, got ${length}` : undefined;
  return (
    <Dialog
      title={`Discard ${id}?`}
      isOpen={open}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={form} kind="danger" busy={busy} disabled={fault !== undefined}>
            Discard
          </Button>
        </>
      }
    >
      <form
        id={form}
        className={css['form']}
        onSubmit={(event) => {
          event.preventDefault();
          if (fault === undefined) onDiscard(note);
        }}
      >
        <p>Nothing is changed. If a step of a run asked for the change, that step fails.</p>
        <Field
          label="Note (optional)"
          fault={fault}
          hint={`Stored in the action journal. The agent sees it only if its task waits for this decision. ${length} of ${maxNote} characters.`}
        >
          {(control) => (
            <textarea
              {...control}
              className={`${control.className} ${css['text']}`}
              rows={3}
              value={note}
              onChange={({ target }) => setNote(target.value)}
            />
          )}
        </Field>
        {error !== null && <FaultNote error={error} />}
      </form>
    </Dialog>
  );
}
