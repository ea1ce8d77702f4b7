import { useState, useSyncExternalStore } from 'react';
import { bearer } from '../api/token.ts';
import { Button, Dialog, Field } from '../parts/index.tsx';

/** Asks for the bearer token whenever a request needs it; it is kept in memory alone. */
export function SignIn() {
  const isAsked = useSyncExternalStore(bearer.subscribe, () => bearer.isAsked);
  const isRefused = useSyncExternalStore(bearer.subscribe, () => bearer.isRefused);
  const [typed, setTyped] = useState('');
  const token = typed.trim();
  const fault = faultOf(token, isRefused);
  return (
    <Dialog title="The host asks for its bearer token" open={isAsked} close={() => bearer.dismiss()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isToken(token)) return;
          setTyped('');
          bearer.set(token);
        }}
      >
        <Field
          label="Bearer token"
          fault={fault}
          hint={
            <>
              It is in the file <code>bearer.token</code> of the host's data directory. This page keeps it in
              memory until it is closed or loaded again.
            </>
          }
        >
          {(control) => (
            <input
              {...control}
              type="password"
              autoComplete="off"
              spellCheck={false}
              value={typed}
              onChange={({ target }) => setTyped(target.value)}
            />
          )}
        </Field>
        <p>
          <Button type="submit" kind="primary" disabled={!isToken(token)}>
            Use it
          </Button>
        </p>
      </form>
    </Dialog>
  );
}

const isToken = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

function faultOf(token: string, isRefused: boolean): string | undefined {
  if (token === '') return isRefused ? 'The host does not take that token. Is it of this host?' : undefined;
  return isToken(token) ? undefined : 'A token has no spaces and only ASCII.';
}
