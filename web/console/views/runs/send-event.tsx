import { useMutation } from '@tanstack/react-query';
import { DeclaredForm } from '../../agents/declared-form.tsx';
import { agentsCss as css } from '../../agents/parts.tsx';
import { api, held } from '../../api/client.ts';

const data = {
  name: 'data',
  type: 'object',
  required: true,
  default: {},
  description: 'What the gate and the step see of it.',
} as const;

/** Tells the host that an event of the user's own has happened. */
export function SendEvent({ name }: { name: string }) {
  const send = useMutation({
    mutationFn: (about: Record<string, unknown>) =>
      held(api.POST('/agent/v1/events', { body: { name, data: about } })),
  });
  return (
    <>
      <DeclaredForm
        fields={[data]}
        action={`Send ${name}`}
        busy={send.isPending}
        error={send.error}
        send={(values) => send.mutate(values['data'] as Record<string, unknown>)}
      />
      <p className={`${css['quiet']} ${css['live']}`} role="status">
        {send.isSuccess && 'It is noted. The run goes on in a moment, if it waits for just that.'}
      </p>
    </>
  );
}
