/** Loads a model into an engine, in the worker. */
import {
  EngineError,
  formatBytes,
  loadEngine,
  ModelFileError,
  type ModelFiles,
  type ResidentEngine,
} from '../../src/engine/index.ts';
import { browserPlatform, requestAdapter } from '../../src/platform/browser.ts';
import { namedFiles } from '../../src/platform/browser-files.ts';
import { keptFiles, streamedFiles, wholeFiles } from '../../src/platform/browser-models.ts';
import { folderStore } from '../../src/platform/browser-storage.ts';
import { ChatError } from './chat-error.ts';
import { withLimits, loadFailure } from './failure-of.ts';
import type { ModelPlace } from './messages.ts';
import { openStorage, type PageStorage } from './storage.ts';
import { downloading, fileName, loadingStage, paced } from './told.ts';
import type { DeviceFacts, LoadProgress } from './types.ts';
import { wgsl } from './wgsl.ts';

export interface Answering {
  readonly engine: ResidentEngine;
  readonly device: DeviceFacts;
  /** Resolves when the device is lost. */
  readonly lost: Promise<unknown>;
}

/** Maximum number of parallel answers; each needs the memory of a full context. Further requests wait. */
const parallel = 2;
/** Size of the KV cache when the page does not set `contextLength`. */
const usualCacheBytes = 2 ** 30;

/** @throws ChatError, EngineError, ModelFileError */
export async function load(
  place: ModelPlace,
  contextLength: number | undefined,
  onProgress: (progress: LoadProgress) => void,
): Promise<Answering> {
  const tell = paced(onProgress);
  tell({ phase: 'adapter', message: 'Looking for a GPU' });
  if (!('gpu' in navigator)) throw noWebGpu();
  // Checks for a GPU before the download starts.
  const adapter = await requestAdapter().catch((error: unknown) => {
    throw error instanceof EngineError ? noAdapter() : error;
  });
  const storage = await openStorage();
  // Kernels are not tuned on a software adapter, where it would take too long.
  const measures = storage !== undefined && !adapter.info.isFallbackAdapter;
  let reading: Reading | undefined;
  const platform = browserPlatform({
    wgsl,
    store: measures ? folderStore(storage.tuning) : undefined,
    modelFiles: async () => (reading = await read(place, storage, tell)).files,
  });
  try {
    const engine = await loadEngine(platform, {
      model: place.kind === 'files' ? 'files' : place.url,
      parallel,
      ...(contextLength === undefined ? { kvCacheBytes: usualCacheBytes } : { context: contextLength }),
      onProgress: (progress) => tell(loadingStage(progress)),
    });
    await requireChat(engine);
    await reading?.finish?.();
    tell({ phase: 'ready', message: `${engine.model.id} is ready` });
    return { engine, device: factsOf(adapter, engine), lost: engine.runner.gpu.lost };
  } catch (error) {
    const failure = withLimits(loadFailure(error, place), adapter);
    if (error instanceof ModelFileError && failure.code === 'bad_model')
      await reading?.drop?.().catch(() => {});
    throw failure;
  }
}

interface Reading {
  readonly files: ModelFiles;
  readonly finish?: () => Promise<void>;
  readonly drop?: () => Promise<void>;
}

async function read(
  place: ModelPlace,
  storage: PageStorage | undefined,
  onProgress: (progress: LoadProgress) => void,
): Promise<Reading> {
  if (place.kind === 'files') return { files: namedFiles(place.files) };
  const { url } = place;
  const onBytes = downloading(onProgress);
  const notices = { onNotice: (message: string) => onProgress({ phase: 'download', message }) };
  if (place.kind === 'embedded') return { files: await wholeFiles(url, onBytes, notices) };
  if (!place.cache || !storage) return { files: await streamedFiles(url, onBytes, notices) };
  return await keptFiles(url, {
    models: storage.models,
    locks: storage.locks,
    room: storage.room,
    ...notices,
    onBytes,
    onKept: (file, bytes) =>
      onProgress({
        phase: 'download',
        message: `${fileName(file)} is stored by this site: ${formatBytes(bytes)}`,
        done: bytes,
        total: bytes,
        cached: true,
      }),
    onWait: () =>
      onProgress({ phase: 'download', message: 'Another page is downloading this model; waiting for it' }),
  });
}

async function requireChat(engine: ResidentEngine): Promise<void> {
  const { kind, id } = engine.model;
  if (kind === 'generate' && engine.chatTemplate) return;
  await engine.close();
  const why = kind === 'embed' ? 'is an embedding model and cannot generate text' : 'has no chat template';
  throw new ChatError('bad_model', `the model '${id}' ${why}; use a chat model`);
}

const noWebGpu = (): ChatError =>
  new ChatError(
    'no_webgpu',
    globalThis.isSecureContext
      ? 'this browser has no WebGPU in workers; use a current Chrome, Edge, Safari or Firefox, and check that WebGPU is not turned off'
      : 'browsers allow WebGPU only on https: and localhost; open this page at such an address',
  );

const noAdapter = (): ChatError =>
  new ChatError(
    'no_adapter',
    'WebGPU is available, but found no usable GPU: turn on hardware acceleration in the browser settings, ' +
      'or update the graphics driver',
  );

function factsOf({ info }: GPUAdapter, { adapter, runner }: ResidentEngine): DeviceFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    description: adapter.description,
    fallback: adapter.software,
    features: adapter.features,
    maxBufferBytes: runner.gpu.device.limits.maxBufferSize,
  };
}
