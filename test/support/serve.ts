import { afterEach } from 'vitest';
import { loopbackAccess } from '../../src/planes/access.ts';
import type { ChangeBus } from '../../src/changes/change-bus.ts';
import { createApp, createEnvelopeLookup } from '../../src/http/app.ts';
import type { BrowserSessions } from '../../src/http/browser-sessions.ts';
import { Cors } from '../../src/http/cors.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { Sockets } from '../../src/http/sockets.ts';
import { createControlPlanes, createHostPlanes } from '../../src/planes/mount.ts';
import type { AccessControl } from '../../src/http/route.ts';
import { BackgroundResponses } from '../../src/planes/v1/stored/background.ts';
import type { QueuedResponses } from '../../src/planes/v1/stored/queued-responses.ts';
import type { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { type LabSource, Resident } from '../../src/planes/resident.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { type TraceSink, Tracer } from '../../src/tracing/index.ts';
import { freshDataDir } from './host.ts';
import { storeAt } from './model-store.ts';
import { type Script, ScriptedEngine } from './scripted-engine.ts';
import { ScriptedGrammars } from './scripted-grammars.ts';

interface ServedOptions {
  readonly responses?: ResponseStore;
  readonly queued?: QueuedResponses;
  readonly access?: AccessControl;
  readonly socketAgeMs?: number;
  /** `--allowed-origin` */
  readonly allowedOrigins?: readonly string[];
  readonly truncatesChats?: boolean;
  readonly sessions?: BrowserSessions;
  readonly changes?: ChangeBus;
}

/** The planes over a scripted engine on a real port. */
export async function serveScripted(
  script: Script = {},
  start: 'none' | 'loading' | 'ready' = 'ready',
  lab?: LabSource,
  sinks: readonly TraceSink[] = [],
  more: ServedOptions = {},
) {
  const engine = new ScriptedEngine(script);
  const grammars = new ScriptedGrammars();
  const resident = new Resident(start === 'none' ? 'none' : 'loading');
  if (start === 'ready') resident.setReady(engine, lab ? { lab, grammars } : { grammars });
  const stopping = new AbortController();
  const faults: unknown[] = [];
  const store = storeAt(freshDataDir());
  const served = new ServedCounters();
  const { responses, queued, access = loopbackAccess, socketAgeMs, truncatesChats = true } = more;
  const tracer = new Tracer([served, ...sinks]);
  const onFault = (_: string, error: unknown) => void faults.push(error);
  const background =
    responses &&
    queued &&
    new BackgroundResponses({ responses, queued, tracer, stopSignal: stopping.signal, onFault });
  const facts = {
    resident,
    store,
    served,
    version: '0.0.0',
    endpointId: 'e0',
    responses,
    background,
    truncatesChats,
    sessions: more.sessions,
    changes: more.changes,
  };
  const planes = createHostPlanes(facts);
  const refusedOrigins: string[] = [];
  const cors = new Cors({
    allowedOrigins: more.allowedOrigins ?? [],
    planes,
    onRefused: (message) => refusedOrigins.push(message),
  });
  const appOptions = {
    planes,
    access,
    stopSignal: stopping.signal,
    onFault,
    watch: tracer,
    cors,
  };
  const app = createApp(appOptions);
  const listener = await listen(
    app,
    hostGuard('127.0.0.1', ['my.box']),
    { host: '127.0.0.1', port: 0 },
    {
      envelopeOf: createEnvelopeLookup(planes),
      upgrades: new Sockets({
        ...appOptions,
        ...(socketAgeMs === undefined ? {} : { maxAgeMs: socketAgeMs }),
      }),
      cors,
    },
  );
  const url = `http://127.0.0.1:${listener.port}`;
  return {
    url,
    port: listener.port,
    engine,
    grammars,
    resident,
    stopping,
    faults,
    refusedOrigins,
    app,
    planes,
    control: createControlPlanes(facts),
    get: (path: string, init: RequestInit = {}) => fetch(url + path, init),
    post: (path: string, body: unknown, init: RequestInit = {}) =>
      fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
      }),
    async close() {
      listener.destroyConnections();
      await listener.close();
    },
  };
}

/** The same, closed after each test of the file. */
export function scriptedServers() {
  const hosts: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    await Promise.all(hosts.splice(0).map((host) => host.close()));
  });
  return async (...options: Parameters<typeof serveScripted>) => {
    const host = await serveScripted(...options);
    hosts.push(host);
    return host;
  };
}

/** The `data:` lines of an event stream. */
export async function readEvents(response: Response): Promise<string[]> {
  const text = await response.text();
  return text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => frame.replace(/^data: /, ''));
}
