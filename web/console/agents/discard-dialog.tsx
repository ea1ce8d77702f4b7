import { useId, useState } from 'react';
import { Button, Dialog, FaultNote, Field } from '../parts/index.tsx';
import css from './agents.module.css';

const mostNote = 2000;

/** Declines a change; a note goes into the journal of acts, and to no agent. */
export function DiscardDialog(props: {
  id: string;
  open: boolean;
  busy: boolean;
  error: unknown;
  discard: (note: string) => void;
  close: () => void;
}) {
  const { id, open, busy, error, discard, close } = props;
  const [note, setNote] = useState('');
  const form = useId();
  // Code points, as the host counts them.
  const length = Array.from(note).length;
  const fault = length > mostNote ? `is ${length} characters long; ${mostNote} are the most` : undefined;
  return (
    <Dialog
      title={`Discard ${id}?`}
      open={open}
      close={close}
      foot={
        <>
          <Button onClick={close}>Cancel</Button>
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
          if (fault === undefined) discard(note);
        }}
      >
        <p>Nothing is changed. A run whose step asked for it fails at that step.</p>
        <Field
          label="Note (optional)"
          fault={fault}
          hint={`For the journal of acts only: no agent and no model gets to read it. ${length} of ${mostNote} characters.`}
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
