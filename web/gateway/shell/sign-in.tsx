import { useEffect, useState } from 'react';
import { asFault } from '../../api/fault.ts';
import { Button, Field } from '../../ui/index.tsx';
import css from '../gateway.module.css';
import { signIn } from '../api.ts';

/** Asks for the operator's token, and checks it once. */
export function SignIn({ isExpired }: { isExpired: boolean }) {
  const [text, setText] = useState('');
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Sign in - lathe gateway';
  }, []);
  const send = async () => {
    const token = text.trim();
    if (!/^[\x21-\x7e]+$/.test(token)) {
      setFault(token === '' ? 'Enter the token.' : 'A token has only ASCII characters and no spaces.');
      return;
    }
    setBusy(true);
    setFault(undefined);
    try {
      await signIn(token);
    } catch (error) {
      const { status, message } = asFault(error);
      setFault(status === 401 ? 'The gateway has no operator with this token.' : message);
      setBusy(false);
    }
  };
  return (
    <main className={css['signIn']}>
      <h1>Sign in to the gateway</h1>
      {isExpired && <p role="status">Your session has ended. Sign in again.</p>}
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <Field
          label="Operator token"
          fault={fault}
          hint={
            <>
              The token of a line <code>NAME TOKEN</code> in the file of <code>--admin-token-file</code>, or
              of <code>LATHE_GATEWAY_ADMIN_TOKEN</code>. This page keeps it in memory until you close or
              reload it.
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
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        <div>
          <Button type="submit" kind="primary" busy={isBusy}>
            Sign in
          </Button>
        </div>
      </form>
    </main>
  );
}
