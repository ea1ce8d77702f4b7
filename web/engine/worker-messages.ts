/** Messages between a page and its worker. */
import type { ModelInfo } from '../../src/engine/index.ts';
import type { ChatErrorData } from './chat-error.ts';
import type { ChatChunk, ChatFailure, ChatRequest, DeviceFacts, LoadProgress } from './types.ts';

/** Location of the weights. Files lose their folder when posted to a worker, so their paths are sent as keys. */
export type ModelLocation =
  | { readonly kind: 'embedded'; readonly url: string }
  | { readonly kind: 'address'; readonly url: string; readonly cache: boolean }
  | { readonly kind: 'files'; readonly files: ReadonlyMap<string, File> };

export type ToWorker =
  | { readonly type: 'load'; readonly model: ModelLocation; readonly contextLength: number | undefined }
  | { readonly type: 'ask'; readonly id: number; readonly request: ChatRequest }
  /** Ends an answer early; its last chunk is sent as usual. */
  | { readonly type: 'stop'; readonly id: number }
  | { readonly type: 'close' };

export type FromWorker =
  | { readonly type: 'progress'; readonly progress: LoadProgress }
  | { readonly type: 'ready'; readonly model: ModelInfo; readonly device: DeviceFacts }
  /** Loading the model failed. */
  | { readonly type: 'failed'; readonly failure: ChatErrorData }
  /** Digest of the model; for large files it is known only after loading. */
  | { readonly type: 'digest'; readonly digest: string }
  /** The first chunk means that the request was accepted; the chunk with a finish reason is the last. */
  | { readonly type: 'chunk'; readonly id: number; readonly chunk: ChatChunk }
  | { readonly type: 'broken'; readonly id: number; readonly failure: ChatErrorData }
  | { readonly type: 'gone'; readonly why: ChatFailure }
  | { readonly type: 'closed' };
