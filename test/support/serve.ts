import { afterEach } from 'vitest';
import { loopbackAccess } from '../../src/planes/access.ts';
import { createApp, createEnvelopeLookup } from '../../src/http/app.ts';
import { Cors } from '../../src/http/cors.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { createControlPlanes, createHostPlanes } from '../../src/planes/mount.ts';
import { type LabSource, Resident } from '../../src/planes/resident.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { type TraceSink, Tracer } from '../../src/tracing/index.ts';
import { freshDataDir } from './host.ts';
import { storeAt } from './model-store.ts';
import { type Script, ScriptedEngine } from './scripted-engine.ts';
import { ScriptedGrammars } from './scripted-grammars.ts';

interface ServedOptions {
  /** `--allowed-origin` */
  readonly allowedOrigins?: readonly string[];
  readonly truncatesChats?: boolean;
}

/** The planes over a scripted engine on a real port. */
export async function serveScripted(
  script: Script = {},
  start: 'none' | 'loading' | 'ready' = 'ready',
  lab?: LabSource,
  sinks: readonly TraceSink[] = [],
  { allowedOrigins = [], truncatesChats = true }: ServedOptions = {},
) {
  const engine = new ScriptedEngine(script);
  const grammars = new ScriptedGrammars();
  const resident = new Resident(start === 'none' ? 'none' : 'loading');
  if (start === 'ready') resident.setReady(engine, lab ? { lab, grammars } : { grammars });
  const stopping = new AbortController();
  const faults: unknown[] = [];
  const store = storeAt(freshDataDir());
  const served = new ServedCounters();
  const facts = { resident, store, served, version: '0.0.0', endpointId: 'e0', truncatesChats };
  const planes = createHostPlanes(facts);
  const refusedOrigins: string[] = [];
  const cors = new Cors({ allowedOrigins, planes, onRefused: (message) => refusedOrigins.push(message) });
  const app = createApp({
    planes,
    access: loopbackAccess,
    stopSignal: stopping.signal,
    onFault: (_, error) => faults.push(error),
    watch: new Tracer([served, ...sinks]),
    cors,
  });
  const listener = await listen(
    app,
    hostGuard('127.0.0.1', ['my.box']),
    { host: '127.0.0.1', port: 0 },
    { envelopeOf: createEnvelopeLookup(planes), cors },
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
