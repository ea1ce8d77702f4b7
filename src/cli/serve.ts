import type { Options } from '../config/options.ts';
import type { Engine, EngineOptions } from '../engine/index.ts';
import { createApp } from '../planes/app.ts';
import { hostGuard } from '../planes/ingress.ts';
import { type Listener, listen } from '../planes/listen.ts';
import { controlPlanes, hostPlanes } from '../planes/mount.ts';
import { Problem } from '../planes/problem.ts';
import { Resident } from '../planes/resident.ts';
import type { Plane } from '../planes/route.ts';
import { Served } from '../planes/served.ts';
import { defaultDataDir, openDataDir } from './data-dir.ts';
import { locateModel } from './model-location.ts';
import { printable } from './printable.ts';
import { progressBar } from './progress.ts';
import { readyLine } from './ready-line.ts';
import { messageOf, StartError, systemCode } from './start-error.ts';
import type { OpenLab, World } from './world.ts';

export interface Host {
  /** Resolves when the model is loaded and the ready line is out. */
  readonly ready: Promise<void>;
  /** Finishes what runs, or aborts it when that takes long. Takes at most 4 s, also when the device hangs. */
  readonly stop: () => Promise<void>;
}

const finishMs = 1500;
const abortMs = 500;
const closeMs = 1500;

/** Takes the ports, then loads the model while `/health` answers 503, then says that it is ready. */
export async function startHost(options: Options, version: string, world: World): Promise<Host> {
  const { stdout, stderr } = world;
  const quiet = options.quiet ?? false;
  const say = (text: string) => {
    if (!quiet) stderr.write(`${printable(text)}\n`);
  };
  const host = options.host ?? '127.0.0.1';
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(world.env, world.home));
  const places = { packageRoot: world.packageRoot, dataDir: dataDir.path };
  const model = options.gpu ? await locateModel(options.model, places) : undefined;
  if (!options.gpu && options.model !== undefined) say('--model has no effect without --gpu');
  if (!options.gpu && options.kernels !== undefined) say('--kernels has no effect without --gpu');

  const stopping = new AbortController();
  const resident = new Resident(model ? 'loading' : 'none');
  const facts = { resident, served: new Served(), version, endpointId: dataDir.endpointId };
  const onFault = (requestId: string, error: unknown) =>
    stderr.write(
      `${requestId}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
  const listeners: Listener[] = [];
  const open = async (planes: readonly Plane[], port: number, flag: string) => {
    const app = createApp({ planes, stopping: stopping.signal, onFault });
    const listener = await listen(app, hostGuard(host, options.allowed_host ?? []), { host, port }).catch(
      (error: unknown) => {
        throw portError(error, host, port, flag);
      },
    );
    listeners.push(listener);
    return `http://${host.includes(':') ? `[${host}]` : host}:${listener.port}`;
  };

  let engine: Engine | undefined;
  let lab: OpenLab | undefined;
  let stopped: Promise<void> | undefined;
  const closeModel = async () => {
    await Promise.all([lab?.close(), engine?.close(closeMs)]);
  };
  const stop = () => (stopped ??= stopHost(listeners, stopping, closeModel));
  try {
    const url = await open(hostPlanes(facts), options.port ?? 8080, '--port');
    const controlUrl =
      options.control_port === undefined
        ? undefined
        : await open(controlPlanes(facts), options.control_port, '--control-port');
    const ready = async () => {
      if (model) {
        const bar = progressBar(stderr, quiet);
        try {
          engine = await world.loadEngine(engineOptions(options, model.location, bar, say));
        } finally {
          bar.clear();
        }
        lab = await world.openLab({
          engine,
          dataDir: dataDir.path,
          adapter: options.adapter,
          trustedKeys: options.trust_key ?? [],
          allowUnverified: options.allow_unverified_kernels ?? false,
          config: options.kernels,
          onNotice: say,
          onWarning: (message) => stderr.write(`${message}\n`),
          signal: stopping.signal,
        });
        const opened = lab;
        resident.ready(engine, opened ? { lab: () => opened.lab } : {});
        if (model.embedded && !quiet) stdout.write(`${embeddedLimits}\n`);
      }
      const line = readyLine({ version, url, controlUrl, engine, readyMs: world.elapsedMs() });
      if (stopped === undefined) stdout.write(`${line}\n`);
    };
    return { ready: ready(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const embeddedLimits =
  'The embedded lathe-tiny is a toy: English only, sure of wrong answers, lost outside the few tasks it was made for ' +
  '(models/README.md). For real work: --model PATH.gguf';

function engineOptions(
  options: Options,
  location: string,
  bar: ReturnType<typeof progressBar>,
  say: (text: string) => void,
): EngineOptions {
  const { adapter, context, parallel, queue, quantize, kv_cache_bytes: kvCacheBytes } = options;
  return {
    model: location,
    ...(adapter === undefined ? {} : { adapter }),
    ...(context === undefined ? {} : { context }),
    ...(quantize === undefined ? {} : { quantize }),
    ...(parallel === undefined ? {} : { parallel }),
    ...(queue === undefined ? {} : { queue }),
    ...(kvCacheBytes === undefined ? {} : { kvCacheBytes }),
    ...(options.exact ? { exact: true } : {}),
    ...(options.retune ? { retune: true } : {}),
    ...(options.no_speculation ? { speculation: 'off' } : {}),
    onProgress: ({ stage, done, total }) => bar.show(`loading: ${stage}`, done, total),
    onNotice: (message) => {
      bar.clear();
      say(message);
    },
  };
}

function portError(error: unknown, host: string, port: number, flag: string): StartError {
  const code = systemCode(error);
  if (code === 'EADDRINUSE') {
    return new StartError(
      `port ${port} on ${host} is in use; choose another with ${flag} N, or ${flag} 0 for a free one.`,
    );
  }
  if (code === 'EACCES')
    return new StartError(`port ${port} needs more rights; choose one above 1023 with ${flag} N.`);
  if (code === 'EADDRNOTAVAIL') return new StartError(`this machine has no address ${host}; use 127.0.0.1.`);
  return new StartError(`cannot listen on ${host}:${port}: ${messageOf(error)}`);
}

async function stopHost(
  listeners: readonly Listener[],
  stopping: AbortController,
  closeModel: () => Promise<void>,
): Promise<void> {
  const finished = Promise.all(listeners.map((listener) => listener.close()));
  await atMost(finished, finishMs);
  stopping.abort(
    new Problem(503, 'shutting_down', 'The host is shutting down.', { headers: { 'retry-after': '5' } }),
  );
  await atMost(finished, abortMs);
  for (const listener of listeners) listener.cut();
  await atMost(closeModel(), closeMs + 500);
}

async function atMost(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work.catch(() => undefined), late]);
  clearTimeout(timer);
}
