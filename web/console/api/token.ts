/** The host's bearer token. It is kept in memory only, neither in storage nor in a URL. */
let token = handedOver();
let asking:
  | { readonly settled: Promise<string | undefined>; readonly settle: (token?: string) => void }
  | undefined;
let isRefused = false;
const listeners = new Set<() => void>();
const tell = () => {
  for (const listener of listeners) listener();
};

export const bearer = {
  get token(): string | undefined {
    return token;
  },
  /** Whether a request is waiting for the token. */
  get isAsked(): boolean {
    return asking !== undefined;
  },
  /** Whether the host refused the last token. */
  get isRefused(): boolean {
    return isRefused;
  },
  /** Asks the user; concurrent calls share one dialog. Undefined: the user dismissed it. */
  ask(): Promise<string | undefined> {
    if (!asking) {
      const { promise, resolve } = Promise.withResolvers<string | undefined>();
      asking = { settled: promise, settle: resolve };
      tell();
    }
    return asking.settled;
  },
  set(next: string): void {
    token = next;
    isRefused = false;
    asking?.settle(next);
    asking = undefined;
    tell();
  },
  /** Closes the dialog; waiting requests continue without a token. */
  dismiss(): void {
    asking?.settle();
    asking = undefined;
    isRefused = false;
    tell();
  },
  /** Discards a token that the host refused. */
  refuse(): void {
    token = undefined;
    isRefused = true;
    tell();
  },
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** The token from the sign-in page that was shown before the console was loaded (src/planes/pages/sign-in.ts). */
function handedOver(): string | undefined {
  const place = Symbol.for('lathe.bearer');
  const given: unknown = Reflect.get(globalThis, place);
  Reflect.deleteProperty(globalThis, place);
  return typeof given === 'string' ? given : undefined;
}
