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
import { blobFiles } from '../../src/platform/browser-files.ts';
import { cachedFiles, streamedFiles, wholeFiles } from '../../src/platform/browser-models.ts';
import { folderTextStore } from '../../src/platform/browser-storage.ts';
import { ChatError } from './chat-error.ts';
import { withDeviceLimits, toLoadError } from './to-chat-error.ts';
import type { ModelLocation } from './worker-messages.ts';
import { openStorage, type PageStorage } from './storage.ts';
import { downloadReporter, fileName, toLoadProgress, throttleProgress } from './progress.ts';
import type { DeviceFacts, LoadProgress } from './types.ts';
import { wgslSources } from './wgsl-sources.ts';

export interface LoadedEngine {
  readonly engine: ResidentEngine;
  readonly device: DeviceFacts;
  /** Resolves when the device is lost. */
  readonly deviceLost: Promise<unknown>;
}

/** Maximum number of parallel answers; each needs the memory of a full context. Further requests wait. */
const parallel = 2;
/** Size of the KV cache when the page does not set `contextLength`. */
const defaultCacheBytes = 2 ** 30;

/** @throws ChatError, EngineError, ModelFileError */
export async function loadModel(
  location: ModelLocation,
  contextLength: number | undefined,
  onProgress: (progress: LoadProgress) => void,
): Promise<LoadedEngine> {
  const report = throttleProgress(onProgress);
  report({ phase: 'adapter', message: 'Looking for a GPU' });
  if (!('gpu' in navigator)) throw noWebGpuError();
  // Checks for a GPU before the download starts.
  const adapter = await requestAdapter().catch((error: unknown) => {
    throw error instanceof EngineError ? noAdapterError() : error;
  });
  const storage = await openStorage();
  // Kernels are not tuned on a software adapter, where it would take too long.
  const canTune = storage !== undefined && !adapter.info.isFallbackAdapter;
  let openedFiles: OpenedFiles | undefined;
  const platform = browserPlatform({
    wgsl: wgslSources,
    store: canTune ? folderTextStore(storage.tuning) : undefined,
    modelFiles: async () => (openedFiles = await openFiles(location, storage, report)).files,
  });
  try {
    const engine = await loadEngine(platform, {
      model: location.kind === 'files' ? 'files' : location.url,
      parallel,
      ...(contextLength === undefined ? { kvCacheBytes: defaultCacheBytes } : { context: contextLength }),
      onProgress: (progress) => report(toLoadProgress(progress)),
    });
    await requireChat(engine);
    await openedFiles?.finish?.();
    report({ phase: 'ready', message: `${engine.model.id} is ready` });
    return { engine, device: deviceFacts(adapter, engine), deviceLost: engine.runner.gpu.lost };
  } catch (error) {
    const failure = withDeviceLimits(toLoadError(error, location), adapter);
    if (error instanceof ModelFileError && failure.code === 'bad_model')
      await openedFiles?.drop?.().catch(() => {});
    throw failure;
  }
}

interface OpenedFiles {
  readonly files: ModelFiles;
  readonly finish?: () => Promise<void>;
  readonly drop?: () => Promise<void>;
}

async function openFiles(
  location: ModelLocation,
  storage: PageStorage | undefined,
  onProgress: (progress: LoadProgress) => void,
): Promise<OpenedFiles> {
  if (location.kind === 'files') return { files: blobFiles(location.files) };
  const { url } = location;
  const onBytes = downloadReporter(onProgress);
  const noticeOptions = { onNotice: (message: string) => onProgress({ phase: 'download', message }) };
  if (location.kind === 'embedded') return { files: await wholeFiles(url, onBytes, noticeOptions) };
  if (!location.cache || !storage) return { files: await streamedFiles(url, onBytes, noticeOptions) };
  return await cachedFiles(url, {
    models: storage.models,
    locks: storage.locks,
    room: storage.room,
    ...noticeOptions,
    onBytes,
    onCached: (file, bytes) =>
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
  const reasons = {
    embed: 'is an embedding model and cannot generate text',
    rerank: 'ranks documents and cannot generate text',
    generate: 'has no chat template',
  };
  const reason = reasons[kind];
  throw new ChatError('bad_model', `the model '${id}' ${reason}; use a chat model`);
}

const noWebGpuError = (): ChatError =>
  new ChatError(
    'no_webgpu',
    globalThis.isSecureContext
      ? 'this browser has no WebGPU in workers; use a current Chrome, Edge, Safari or Firefox, and check that WebGPU is not turned off'
      : 'browsers allow WebGPU only on https: and localhost; open this page at such an address',
  );

const noAdapterError = (): ChatError =>
  new ChatError(
    'no_adapter',
    'WebGPU is available, but found no usable GPU: turn on hardware acceleration in the browser settings, ' +
      'or update the graphics driver',
  );

function deviceFacts({ info }: GPUAdapter, { adapter, runner }: ResidentEngine): DeviceFacts {
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    description: adapter.description,
    fallback: adapter.software,
    features: adapter.features,
    maxBufferBytes: runner.gpu.device.limits.maxBufferSize,
  };
}
