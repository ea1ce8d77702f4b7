/** The host's bearer token, for as long as the page is open: it is in no storage and no URL. */
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
  /** Whether the host is waiting to be told. */
  get isAsked(): boolean {
    return asking !== undefined;
  },
  /** Whether the token that was told last is none that the host takes. */
  get isRefused(): boolean {
    return isRefused;
  },
  /** Asks the person; all who ask meanwhile get the same answer. Undefined: there is none to be had. */
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
  /** Nobody is asked any longer; who waits goes without. */
  dismiss(): void {
    asking?.settle();
    asking = undefined;
    isRefused = false;
    tell();
  },
  /** The host did not take it. */
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

/** By the page that asked for the token before the console could be fetched (src/planes/pages/sign-in.ts). */
function handedOver(): string | undefined {
  const place = Symbol.for('lathe.bearer');
  const given: unknown = Reflect.get(globalThis, place);
  Reflect.deleteProperty(globalThis, place);
  return typeof given === 'string' ? given : undefined;
}
