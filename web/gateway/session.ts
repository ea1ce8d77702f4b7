/** The operator's session in this browser and the state of the connection. The page never keeps the token. */

interface Session {
  /** Undefined: not known yet; null: nobody is signed in. */
  readonly by: string | null | undefined;
  /** Whether the gateway ended a session that the page had. */
  readonly isExpired: boolean;
  /** Whether the last request had no answer. */
  readonly isOffline: boolean;
}

let current: Session = { by: undefined, isExpired: false, isOffline: false };
const listeners = new Set<() => void>();

function update(next: Partial<Session>): void {
  const changed = { ...current, ...next };
  if (
    changed.by === current.by &&
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
  /** @param by who is signed in, such as `admin:ada`; null: nobody */
  set: (by: string | null): void => update({ by, isExpired: false }),
  /** The gateway refused a request: the session ended there. */
  expire: (): void => update({ by: null, isExpired: typeof current.by === 'string' || current.isExpired }),
  setOffline: (isOffline: boolean): void => update({ isOffline }),
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
