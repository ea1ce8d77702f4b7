/**
 * The session of this browser at the host. The token itself is sent once, to sign in, and then forgotten: the session is a cookie
 * that scripts cannot read.
 */
const path = '/host/v1/session';
/** Undefined until the host has told. */
let isSignedIn: boolean | undefined;
let pending:
  | { readonly settled: Promise<boolean>; readonly settle: (isSignedIn: boolean) => void }
  | undefined;
let fault: string | undefined;
/** How often the user signed in on this page. */
let signIns = 0;
const listeners = new Set<() => void>();
const notifyListeners = () => {
  for (const listener of listeners) listener();
};

function settle(outcome: boolean): void {
  pending?.settle(outcome);
  pending = undefined;
  notifyListeners();
}

export const session = {
  get isSignedIn(): boolean {
    return isSignedIn === true;
  },
  /** Changes when the user signs in on this page. */
  get version(): number {
    return signIns;
  },
  /** Whether a request waits for the user to sign in. */
  get isRequested(): boolean {
    return pending !== undefined;
  },
  /** Why the last attempt to sign in failed. */
  get fault(): string | undefined {
    return fault;
  },
  /** Asks the user to sign in; concurrent calls share one dialog. False: the user dismissed it. */
  request(): Promise<boolean> {
    if (!pending) {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      pending = { settled: promise, settle: resolve };
      isSignedIn = false;
      notifyListeners();
    }
    return pending.settled;
  },
  /** Exchanges the token for a session. Where the host refuses it, `fault` says so and the dialog stays open. */
  async signIn(token: string): Promise<void> {
    fault = undefined;
    try {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(path, { method: 'POST', headers });
      await answer.text();
      if (answer.ok) {
        isSignedIn = true;
        signIns += 1;
        settle(true);
        return;
      }
      fault =
        answer.status === 401
          ? 'The host refused this token. Check that it belongs to this host.'
          : `The host answered ${answer.status}. Try again.`;
    } catch {
      fault = 'The host does not answer. Is it still running?';
    }
    notifyListeners();
  },
  /** Closes the dialog; waiting requests go on without a session. */
  dismiss(): void {
    fault = undefined;
    settle(false);
  },
  /** Ends the session at the host. Rejects where the host does not answer. */
  async signOut(): Promise<void> {
    await (await fetch(path, { method: 'DELETE' })).text();
    isSignedIn = false;
    notifyListeners();
  },
  /** Asks the host whether this browser has a session. */
  async load(): Promise<void> {
    try {
      const answer = await fetch(path);
      const text = await answer.text();
      const body = answer.ok ? (JSON.parse(text) as { readonly signed_in?: boolean }) : {};
      isSignedIn = body.signed_in === true;
      notifyListeners();
    } catch {
      // The host does not answer, or not with JSON: what was known stays.
    }
  },
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** Path of the file with the token, where the host tells it: to browsers of its own machine. */
export const tokenFile = (): string | undefined =>
  document.querySelector<HTMLMetaElement>('meta[name=token-file]')?.content || undefined;
