import { useState, useSyncExternalStore } from 'react';
import { bearer } from '../../api/token.ts';
import { Button, Dialog, Field } from '../../ui/index.tsx';

/** Dialog that asks for the bearer token when a request needs it. The token is kept in memory only. */
export function SignInDialog() {
  const isRequested = useSyncExternalStore(bearer.subscribe, () => bearer.isRequested);
  const isRefused = useSyncExternalStore(bearer.subscribe, () => bearer.isRefused);
  const [text, setTyped] = useState('');
  const token = text.trim();
  const fault = faultOf(token, isRefused);
  return (
    <Dialog title="Sign in with the bearer token" isOpen={isRequested} onClose={() => bearer.dismiss()}>
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
              The token is in the file <code>bearer.token</code> of the host's data directory. This page keeps
              it in memory until you close or reload it.
            </>
          }
        >
          {(control) => (
            <input
              {...control}
              type="password"
              autoComplete="off"
              spellCheck={false}
              value={text}
              onChange={({ target }) => setTyped(target.value)}
            />
          )}
        </Field>
        <p>
          <Button type="submit" kind="primary" disabled={!isToken(token)}>
            Sign in
          </Button>
        </p>
      </form>
    </Dialog>
  );
}

const isToken = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

function faultOf(token: string, isRefused: boolean): string | undefined {
  if (token === '')
    return isRefused ? 'The host refused this token. Check that it belongs to this host.' : undefined;
  return isToken(token) ? undefined : 'A token has only ASCII characters and no spaces.';
}
