/** Converts errors of the worker to ChatError. */
import { ChatError as TemplateError } from '../../src/chat/index.ts';
import { EngineError, type EngineErrorCode, formatBytes, ModelFileError } from '../../src/engine/index.ts';
import { useDownloadedFile } from '../../src/platform/http-file.ts';
import { ChatError, invalidRequest } from './chat-error.ts';
import type { ModelLocation } from './worker-messages.ts';
import type { ChatFailure } from './types.ts';

const codeOfEngineError: Readonly<Record<EngineErrorCode, ChatFailure>> = {
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
const downloadErrorCodes = new Set(['not_found', 'forbidden', 'unreadable', 'no_ranges', 'changed']);

/** Converts an error from loading a model. */
export function toLoadError(error: unknown, location: ModelLocation): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof EngineError)
    return new ChatError(codeOfEngineError[error.code], adaptMessage(error.message));
  if (error instanceof ModelFileError) {
    if (error.code === 'quota_exceeded') return new ChatError('quota_exceeded', error.message);
    const isDownloadError = location.kind !== 'files' && downloadErrorCodes.has(error.code);
    return new ChatError(isDownloadError ? 'download_failed' : 'bad_model', adaptMessage(error.message));
  }
  if (error instanceof RangeError && /allocation|array length/i.test(error.message)) {
    const message = `the page has no memory left for the model (${error.message}); close other tabs, or use a smaller model`;
    return new ChatError('does_not_fit', message);
  }
  return unexpectedError(error);
}

/** Converts an error from answering a request. */
export function toAnswerError(error: unknown): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof TemplateError) return invalidRequest([{ path: 'messages', message: error.message }]);
  if (error instanceof EngineError) {
    const code = codeOfEngineError[error.code];
    if (code === 'invalid_request') return invalidRequest([{ path: 'messages', message: error.message }]);
    if (code === 'device_lost') return deviceLostError();
    return new ChatError(code, adaptMessage(error.message));
  }
  return unexpectedError(error);
}

export const deviceLostError = (): ChatError =>
  new ChatError(
    'device_lost',
    'the GPU was lost: its driver was restarted, or it has no memory left; load the model again, or a smaller one',
  );

const unexpectedError = (error: unknown): ChatError =>
  new ChatError('failed', error instanceof Error ? `${error.name}: ${error.message}` : String(error));

/** Replaces command line options in messages of the engine by the options of a page. */
const adaptMessage = (message: string): string =>
  message
    .replace(/, or load this one with --quantize \w+/, '')
    .replaceAll('--context', 'contextLength')
    .replace(useDownloadedFile, 'download the file and give it to the page as a File');

/** Adds the buffer limit of the device to a `does_not_fit` error. */
export const withDeviceLimits = (error: ChatError, { limits }: Pick<GPUAdapter, 'limits'>): ChatError =>
  error.code === 'does_not_fit'
    ? new ChatError(
        'does_not_fit',
        `${error.message} (this device holds up to ${formatBytes(limits.maxBufferSize)} in one buffer)`,
      )
    : error;
