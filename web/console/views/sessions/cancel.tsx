import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../api/client.ts';
import { Button, Dialog, FaultNote } from '../../../ui/index.tsx';
import type { Session } from './sessions.ts';

/** Asks a run to stop at its next step boundary. */
export function CancelButton({ session }: { session: Pick<Session, 'id' | 'title'> }) {
  const [isOpen, setOpen] = useState(false);
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(api.POST('/agent/v1/sessions/{id}/cancel', { params: { path: { id: session.id } } })),
    onSuccess: async () => {
      setOpen(false);
      await queries.invalidateQueries({ queryKey: ['agent', 'sessions'] });
    },
  });
  if (cancel.isSuccess) return <span role="status">stops before its next step</span>;
  return (
    <>
      <Button kind="danger" aria-label={`Cancel ${session.title}`} onClick={() => setOpen(true)}>
        Cancel
      </Button>
      <Dialog
        title={`Cancel ${session.title}?`}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        footer={
          <>
            <Button onClick={() => setOpen(false)}>Keep running</Button>
            <Button kind="danger" busy={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel the session
            </Button>
          </>
        }
      >
        <p>
          {session.id} stops after its current step, or immediately if it is waiting. Completed work is kept.
        </p>
        {cancel.isError && <FaultNote error={cancel.error} />}
      </Dialog>
    </>
  );
}
