/** From the place of a model to an engine that answers. */
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
  /** Resolves when the device is gone. */
  readonly lost: Promise<unknown>;
}

/** Answers at once; more of them wait. Each takes the memory of a context. */
const parallel = 2;
/** Of keys and values, where the page does not say how long its conversations are. */
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
  // Nobody should wait for a download to hear that there is no GPU.
  const adapter = await requestAdapter().catch((error: unknown) => {
    throw error instanceof EngineError ? noAdapter() : error;
  });
  const storage = await openStorage();
  // To measure kernels takes a software adapter longer than a visitor waits.
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
        message: `${fileName(file)} is kept by this site: ${formatBytes(bytes)}`,
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
  const why = kind === 'embed' ? 'makes embeddings and generates no text' : 'has no chat template';
  throw new ChatError('bad_model', `the model '${id}' ${why}; use one that was trained for conversations`);
}

const noWebGpu = (): ChatError =>
  new ChatError(
    'no_webgpu',
    globalThis.isSecureContext
      ? 'this browser has no WebGPU in workers; use a current Chrome, Edge, Safari or Firefox, and see that WebGPU is not turned off'
      : 'browsers give WebGPU only to pages of https: and of localhost; open this page by such an address',
  );

const noAdapter = (): ChatError =>
  new ChatError(
    'no_adapter',
    'WebGPU is here, but there is no GPU that it can use: turn on hardware acceleration in the settings of the browser, ' +
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
