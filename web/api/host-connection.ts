import { readLines } from './lines.ts';
import { session } from './session.ts';

/** A change on the host, as `GET /host/v1/events` tells it. */
export interface HostChange {
  readonly topic: string;
  readonly id?: string;
}

/**
 * `live`: the host tells what changes. `down`: it does not answer. `silent`: it answers, but not with the stream of changes, for
 * example because the token is missing.
 */
export type HostState = 'connecting' | 'live' | 'down' | 'silent';

interface Listener {
  /** Something changed; undefined: anything may have. */
  readonly onChange?: (changes: readonly HostChange[] | undefined) => void;
  readonly onState?: () => void;
}

const path = '/host/v1/events';
/** The host sends something every 15 s; where it does not for this long, in ms, the connection is dead. */
const silenceMs = 35_000;
const probeTimeoutMs = 5000;
const maxRetryMs = 5000;
/** How often a stream that the host refused is tried again, in ms. */
const silentRetryMs = 30_000;

let state: HostState = 'connecting';
let downSince: number | undefined;
let lastId: string | undefined;
/** Ends the pause before the next attempt. */
let endPause: () => void = () => undefined;
let attempt: AbortController | undefined;
let isProbing = false;
const listeners = new Set<Listener>();

function setState(next: HostState): void {
  if (next === state) return;
  const wasDown = state === 'down';
  state = next;
  downSince = next === 'down' ? Date.now() : undefined;
  for (const { onState } of listeners) onState?.();
  // After a restart, or while nothing could be read, anything may have changed.
  if (wasDown && next !== 'live') tell(undefined);
}

function tell(changes: readonly HostChange[] | undefined): void {
  for (const { onChange } of listeners) onChange?.(changes);
}

/** The one connection by which a page learns what changes on the host, and whether the host answers. */
export const hostConnection = {
  get state(): HostState {
    return state;
  },
  get isDown(): boolean {
    return state === 'down';
  },
  /** When the host stopped answering, in ms; undefined while it answers. */
  get downSince(): number | undefined {
    return downSince;
  },
  listen(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  subscribe: (onState: () => void): (() => void) => hostConnection.listen({ onState }),
  /** A request had no response: finds out whether the host is down. */
  suspect(): void {
    if (state === 'down' || isProbing) return;
    isProbing = true;
    void probe().then((answers) => {
      isProbing = false;
      if (answers) return;
      setState('down');
      attempt?.abort();
    });
  },
  /** Resolves after a time in ms, or as soon as the host answers again. */
  pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    const stop = hostConnection.subscribe(() => state !== 'down' && resolve());
    return promise.finally(() => {
      clearTimeout(timer);
      stop();
    });
  },
  /** Connects, and connects again as often as needed, as long as the page is open. */
  start(): void {
    session.subscribe(() => session.isSignedIn && reconnect());
    addEventListener('online', () => endPause());
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') endPause();
      // A browser opens few connections to a host: those of hidden pages are for others.
      else attempt?.abort();
    });
    void run();
  },
};

function reconnect(): void {
  attempt?.abort();
  endPause();
}

async function run(): Promise<never> {
  let failures = 0;
  for (;;) {
    if (document.visibilityState === 'hidden') {
      await pause(undefined);
      continue;
    }
    const outcome = await follow(() => {
      failures = 0;
    });
    if (outcome === 'refused') {
      setState('silent');
      await pause(silentRetryMs);
    } else if (outcome === 'unanswered') {
      // The stream may have ended because the host restarts, or because something between closed it.
      if (failures > 0 || !(await probe())) setState('down');
      await pause(Math.min(maxRetryMs, 250 * 2 ** failures));
      failures += 1;
    } else await pause(outcome === 'ended' ? 100 : 0);
  }
}

/** @param ms undefined: until `endPause` */
function pause(ms: number | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
  endPause = resolve;
  return promise.finally(() => clearTimeout(timer));
}

/** Whether the host answers at all; a proxy in front of a host that is down does not count. */
async function probe(): Promise<boolean> {
  try {
    const response = await fetch('/host/v1/health', { signal: AbortSignal.timeout(probeTimeoutMs) });
    const { status } = response;
    await response.text();
    return status !== 502 && status !== 504;
  } catch {
    return false;
  }
}

/** Reads the stream to its end. */
async function follow(onAnswer: () => void): Promise<'ended' | 'refused' | 'unanswered' | 'replaced'> {
  const own = new AbortController();
  attempt = own;
  let isSilent = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isSilent = true;
      own.abort();
    }, silenceMs);
  };
  watch();
  try {
    const query = lastId === undefined ? '' : `?after=${encodeURIComponent(lastId)}`;
    const response = await fetch(path + query, {
      headers: { accept: 'text/event-stream' },
      signal: own.signal,
    });
    if (response.status === 502 || response.status === 504) return 'unanswered';
    if (!response.ok || !response.body) {
      if (response.status === 400) lastId = undefined;
      await response.body?.cancel();
      return 'refused';
    }
    onAnswer();
    let event = '';
    for await (const line of readLines(response.body)) {
      watch();
      if (line.startsWith('id: ')) lastId = line.slice(4);
      else if (line.startsWith('event: ')) event = line.slice(7);
      else if (line.startsWith('data: ')) receive(event, line.slice(6));
    }
    return 'ended';
  } catch {
    if (isSilent) return 'unanswered';
    if (!own.signal.aborted) return 'unanswered';
    return hostConnection.isDown ? 'unanswered' : 'replaced';
  } finally {
    clearTimeout(timer);
  }
}

function receive(event: string, data: string): void {
  const body = JSON.parse(data) as { readonly resumed?: boolean; readonly changes?: readonly HostChange[] };
  if (event === 'hello') {
    setState('live');
    // Also for the first connection: something may have changed since the views read it.
    if (body.resumed === false) tell(undefined);
  } else if (event === 'reset') tell(undefined);
  else if (event === 'change' && body.changes) tell(body.changes);
}
