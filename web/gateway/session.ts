/** The operator's session and the state of the connection. The token is kept in memory only. */

interface Session {
  /** Undefined: nobody is signed in. */
  readonly token: string | undefined;
  /** Whether the gateway refused the token after it had accepted it. */
  readonly isExpired: boolean;
  /** Whether the last request had no answer. */
  readonly isOffline: boolean;
}

let current: Session = { token: undefined, isExpired: false, isOffline: false };
const listeners = new Set<() => void>();

function update(next: Partial<Session>): void {
  const changed = { ...current, ...next };
  if (
    changed.token === current.token &&
    changed.isExpired === current.isExpired &&
    changed.isOffline === current.isOffline
  )
    return;
  current = changed;
  for (const listener of listeners) listener();
}

export const session = {
  get current(): Session {
    return current;
  },
  signIn: (token: string): void => update({ token, isExpired: false }),
  signOut: (): void => update({ token: undefined, isExpired: false }),
  /** Ends the session of a token that the gateway refuses. */
  expire: (token: string): void => {
    if (token === current.token) update({ token: undefined, isExpired: true });
  },
  setOffline: (isOffline: boolean): void => update({ isOffline }),
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
