import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../api/client.ts';
import { Button, Facts, FaultNote, Field, Panel } from '../../../ui/index.tsx';
import css from './sessions.module.css';
import { StateBadge } from '../../../ui/state-badge.tsx';

const credentials = {
  'x-svc-operator': {
    name: "the operator's credential",
    hint: "From operator.token in the host's data directory; accepted only from the host's own machine.",
  },
  'x-svc-session-secret': {
    name: "the session's own capability",
    hint: 'The secret that was issued to the session.',
  },
} as const;
type Header = keyof typeof credentials;

/** Revokes the credential of a task or run. The secret is sent once and not stored. */
export function RevokePanel({ sessionId }: { sessionId: string | undefined }) {
  const [id, setId] = useState(sessionId ?? '');
  const [header, setHeader] = useState<Header>('x-svc-operator');
  const [secret, setSecret] = useState('');
  const revoke = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/agent/v1/sessions/{id}/revoke', {
          params: { path: { id: id.trim() } },
          headers: { [header]: secret.trim() },
        }),
      ),
    onSettled: () => setSecret(''),
  });
  return (
    <Panel title="Revoke">
      <p>
        Tasks and runs act under a store session. After you revoke it, the host refuses everything the session
        tries, also after a restart. Completed work is kept, and its history stays readable. This cannot be
        undone.
      </p>
      <form
        className={css['form']}
        onSubmit={(event) => {
          event.preventDefault();
          revoke.mutate();
        }}
      >
        <Field
          label="Store session"
          hint="Its id begins with s. Task details and the start event of a run show it."
        >
          {(control) => (
            <input
              {...control}
              value={id}
              spellCheck={false}
              placeholder="s1a2b3c4d-1"
              onChange={({ target }) => setId(target.value)}
            />
          )}
        </Field>
        <Field label="Credential" hint={credentials[header].hint}>
          {(control) => (
            <select {...control} value={header} onChange={({ target }) => setHeader(target.value as Header)}>
              {Object.entries(credentials).map(([name, { name: label }]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Secret" hint="Cleared after it is sent.">
          {(control) => (
            <input
              {...control}
              type="password"
              autoComplete="off"
              value={secret}
              onChange={({ target }) => setSecret(target.value)}
            />
          )}
        </Field>
        <p>
          <Button
            type="submit"
            kind="danger"
            busy={revoke.isPending}
            disabled={id.trim() === '' || secret.trim() === ''}
          >
            Revoke the session
          </Button>
        </p>
      </form>
      {revoke.isError && <FaultNote error={revoke.error} />}
      {revoke.data && (
        <div role="status">
          <Facts
            facts={[
              ['Outcome', <StateBadge key="outcome" state={revoke.data.outcome} isRecorded />],
              ['Verb', revoke.data.verb],
              ['Target', revoke.data.target],
              ['By', revoke.data.by],
              ...(revoke.data.reason === undefined ? [] : ([['Reason', revoke.data.reason]] as const)),
            ]}
          />
        </div>
      )}
    </Panel>
  );
}
