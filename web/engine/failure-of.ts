/** Converts errors of the worker to ChatError. */
import { ChatError as TemplateError } from '../../src/chat/index.ts';
import { EngineError, type EngineErrorCode, formatBytes, ModelFileError } from '../../src/engine/index.ts';
import { ChatError, invalid } from './chat-error.ts';
import type { ModelPlace } from './messages.ts';
import type { ChatFailure } from './types.ts';

const ofEngine: Readonly<Record<EngineErrorCode, ChatFailure>> = {
  queue_full: 'failed',
  context_length_exceeded: 'invalid_request',
  device_lost: 'device_lost',
  shutting_down: 'closed',
  no_adapter: 'no_adapter',
  model_too_large: 'does_not_fit',
  unsupported_model: 'bad_model',
  broken_model: 'bad_model',
  model_unreadable: 'failed',
  invalid_request: 'invalid_request',
  constraint_failed: 'failed',
  reader_stalled: 'failed',
};

/** Codes for failures of the download, as opposed to the content of a file. */
const ofTheWay = new Set(['not_found', 'forbidden', 'unreadable', 'no_ranges', 'changed']);

/** Converts an error from loading a model. */
export function loadFailure(error: unknown, place: ModelPlace): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof EngineError) return new ChatError(ofEngine[error.code], forPages(error.message));
  if (error instanceof ModelFileError) {
    if (error.code === 'quota_exceeded') return new ChatError('quota_exceeded', error.message);
    const way = place.kind !== 'files' && ofTheWay.has(error.code);
    return new ChatError(way ? 'download_failed' : 'bad_model', forPages(error.message));
  }
  if (error instanceof RangeError && /allocation|array length/i.test(error.message)) {
    const message = `the page has no memory left for the model (${error.message}); close other tabs, or use a smaller model`;
    return new ChatError('does_not_fit', message);
  }
  return unforeseen(error);
}

/** Converts an error from answering a request. */
export function answerFailure(error: unknown): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof TemplateError) return invalid([{ path: 'messages', message: error.message }]);
  if (error instanceof EngineError) {
    const code = ofEngine[error.code];
    if (code === 'invalid_request') return invalid([{ path: 'messages', message: error.message }]);
    if (code === 'device_lost') return deviceLost();
    return new ChatError(code, forPages(error.message));
  }
  return unforeseen(error);
}

export const deviceLost = (): ChatError =>
  new ChatError(
    'device_lost',
    'the GPU was lost: its driver was restarted, or it has no memory left; load the model again, or a smaller one',
  );

const unforeseen = (error: unknown): ChatError =>
  new ChatError('failed', error instanceof Error ? `${error.name}: ${error.message}` : String(error));

/** Replaces command line options in messages of the engine by the options of a page. */
const forPages = (message: string): string =>
  message
    .replace(/, or load this one with --quantize \w+/, '')
    .replaceAll('--context', 'contextLength')
    .replace('download the file and name its path', 'download the file and give it to the page as a File');

/** Adds the buffer limit of the device to a `does_not_fit` error. */
export const withLimits = (error: ChatError, { limits }: Pick<GPUAdapter, 'limits'>): ChatError =>
  error.code === 'does_not_fit'
    ? new ChatError(
        'does_not_fit',
        `${error.message} (this device holds up to ${formatBytes(limits.maxBufferSize)} in one buffer)`,
      )
    : error;
