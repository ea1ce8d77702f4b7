import { useState, useSyncExternalStore } from 'react';
import { session } from '../../api/session.ts';
import { Button, Dialog, Field } from '../../ui/index.tsx';
import { TokenFile } from './token-file.tsx';

/** Dialog that asks for the bearer token when a request needs it, and exchanges it for a session of the browser. */
export function SignInDialog() {
  const isRequested = useSyncExternalStore(session.subscribe, () => session.isRequested);
  const refusal = useSyncExternalStore(session.subscribe, () => session.fault);
  const [text, setTyped] = useState('');
  const [isBusy, setBusy] = useState(false);
  const token = text.trim();
  const fault = faultOf(token, refusal);
  return (
    <Dialog title="Sign in with the bearer token" isOpen={isRequested} onClose={() => session.dismiss()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isToken(token)) return;
          setTyped('');
          setBusy(true);
          void session.signIn(token).finally(() => setBusy(false));
        }}
      >
        <Field
          label="Bearer token"
          fault={fault}
          hint={
            <>
              The token is in <TokenFile />. You stay signed in until you sign out, close the browser or do
              not use it for 12 hours.
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
          <Button type="submit" kind="primary" busy={isBusy} disabled={!isToken(token)}>
            Sign in
          </Button>
        </p>
      </form>
    </Dialog>
  );
}

const isToken = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

function faultOf(token: string, refusal: string | undefined): string | undefined {
  if (token === '') return refusal;
  return isToken(token) ? undefined : 'A token has only ASCII characters and no spaces.';
}
