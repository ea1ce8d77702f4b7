/** The host's bearer token. It is kept in memory only, neither in storage nor in a URL. */
let token = takeSignInToken();
let pendingRequest:
  | { readonly settled: Promise<string | undefined>; readonly settle: (token?: string) => void }
  | undefined;
let isRefused = false;
const listeners = new Set<() => void>();
const notifyListeners = () => {
  for (const listener of listeners) listener();
};

export const bearer = {
  get token(): string | undefined {
    return token;
  },
  /** Whether a request is waiting for the token. */
  get isRequested(): boolean {
    return pendingRequest !== undefined;
  },
  /** Whether the host refused the last token. */
  get isRefused(): boolean {
    return isRefused;
  },
  /** Asks the user; concurrent calls share one dialog. Undefined: the user dismissed it. */
  requestToken(): Promise<string | undefined> {
    if (!pendingRequest) {
      const { promise, resolve } = Promise.withResolvers<string | undefined>();
      pendingRequest = { settled: promise, settle: resolve };
      notifyListeners();
    }
    return pendingRequest.settled;
  },
  set(next: string): void {
    token = next;
    isRefused = false;
    pendingRequest?.settle(next);
    pendingRequest = undefined;
    notifyListeners();
  },
  /** Closes the dialog; waiting requests continue without a token. */
  dismiss(): void {
    pendingRequest?.settle();
    pendingRequest = undefined;
    isRefused = false;
    notifyListeners();
  },
  /** Discards a token that the host refused. */
  refuse(): void {
    token = undefined;
    isRefused = true;
    notifyListeners();
  },
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** The token from the sign-in page that was shown before the console was loaded (src/planes/pages/sign-in.ts). */
function takeSignInToken(): string | undefined {
  const key = Symbol.for('lathe.bearer');
  const value: unknown = Reflect.get(globalThis, key);
  Reflect.deleteProperty(globalThis, key);
  return typeof value === 'string' ? value : undefined;
}
