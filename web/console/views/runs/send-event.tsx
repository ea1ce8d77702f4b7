import { useMutation } from '@tanstack/react-query';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { agentsCss as css } from '../../agents/parts.tsx';
import { api, unwrap } from '../../../api/client.ts';

const data = {
  name: 'data',
  type: 'object',
  required: true,
  default: {},
  description: 'Data that the gate and the step receive.',
} as const;

/** Form that sends a user event to the host. */
export function SendEventForm({ name }: { name: string }) {
  const send = useMutation({
    mutationFn: (payload: Record<string, unknown>) =>
      unwrap(api.POST('/agent/v1/events', { body: { name, data: payload } })),
  });
  return (
    <>
      <DeclaredForm
        fields={[data]}
        action={`Send ${name}`}
        busy={send.isPending}
        error={send.error}
        onSubmit={(values) => send.mutate(values['data'] as Record<string, unknown>)}
      />
      <p className={`${css['quiet']} ${css['live']}`} role="status">
        {send.isSuccess && 'The event was sent. The run resumes if it waits for this event.'}
      </p>
    </>
  );
}
