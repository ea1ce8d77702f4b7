import { droppedPath } from '../../src/platform/dropped-path.ts';
import { fromErrorData, ChatError, invalidRequest } from './chat-error.ts';
import type { FromWorker, ModelLocation } from './worker-messages.ts';
import { type ChatWorker, PageChat } from './page-chat.ts';
import { optionViolations } from './validate-request.ts';
import { startWorker, type WorkerStart } from './start-worker.ts';
import type { Chat, ChatOptions } from './types.ts';

/**
 * Starts a worker and loads a model in it.
 * @param embedded URL of the model to load if `options` name none
 * @throws ChatError, or the reason of `signal` when it aborts
 */
export async function loadChat(
  options: ChatOptions,
  embedded?: string,
  workerOptions: WorkerStart = {},
): Promise<Chat> {
  const violations = optionViolations(options);
  if (violations.length === 0 && options.model === undefined && embedded === undefined)
    violations.push({ path: 'model', message: noModel });
  if (violations.length > 0) throw invalidRequest(violations);
  const { signal, contextLength, onProgress } = options;
  const model = locateModel(options, embedded);
  signal?.throwIfAborted();
  if (model.kind === 'address' && model.cache) requestPersistence();
  const worker = startWorker(workerOptions) as ChatWorker;
  const { promise, resolve, reject } = Promise.withResolvers<Chat>();
  const abort = () => reject(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  worker.addEventListener('error', ({ message }) => reject(workerError(message)));
  worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
    if (data.type === 'progress') onProgress?.(data.progress);
    else if (data.type === 'failed') reject(fromErrorData(data.failure));
    else if (data.type === 'ready') resolve(new PageChat(worker, data));
  });
  worker.postMessage({ type: 'load', model, contextLength }, []);
  try {
    return await promise;
  } catch (error) {
    worker.terminate();
    throw error;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

function locateModel({ model, cache = true }: ChatOptions, embedded?: string): ModelLocation {
  if (model === undefined) return { kind: 'embedded', url: embedded ?? '' };
  if (isFiles(model))
    return { kind: 'files', files: new Map(model.map((file) => [droppedPath(file), file])) };
  const address = absoluteUrl(model);
  if (address) return { kind: 'address', url: address, cache };
  const message = `expected a URL (http: or https:) or files, got '${String(model).slice(0, 200)}'`;
  throw invalidRequest([{ path: 'model', message }]);
}

const noModel =
  'expected a URL or files, got undefined; the small model of the package is `embeddedModel` of lathe-web/model';

const isFiles = (model: NonNullable<ChatOptions['model']>): model is readonly File[] => Array.isArray(model);

/** Absolute URL of a model; undefined when it is not http: or https:. */
export function absoluteUrl(model: string | URL): string | undefined {
  const url = URL.parse(String(model), document.baseURI);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  url.hash = '';
  return url.href;
}

/** Asks the browser not to evict the stored model when disk space is low. The browser may refuse. */
function requestPersistence(): void {
  const { storage } = navigator as Partial<Navigator>;
  storage?.persist?.().catch(() => {});
}

const workerError = (message: string | undefined): ChatError =>
  new ChatError(
    'failed',
    message
      ? `the engine failed: ${message}`
      : 'the engine could not be started: its worker must be beside the module, and the Content-Security-Policy must allow it',
  );
