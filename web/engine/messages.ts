/** What a page and its worker say to each other. */
import type { ModelInfo } from '../../src/engine/index.ts';
import type { Failure } from './chat-error.ts';
import type { ChatChunk, ChatFailure, ChatRequest, DeviceFacts, LoadProgress } from './types.ts';

/** Where the weights are. Folders of dropped files are lost on the way, so their names go along. */
export type ModelPlace =
  | { readonly kind: 'embedded'; readonly url: string }
  | { readonly kind: 'address'; readonly url: string; readonly cache: boolean }
  | { readonly kind: 'files'; readonly files: ReadonlyMap<string, File> };

export type ToWorker =
  | { readonly type: 'load'; readonly model: ModelPlace; readonly contextLength: number | undefined }
  | { readonly type: 'ask'; readonly id: number; readonly request: ChatRequest }
  /** Ends an answer; its last chunk comes as for any other. */
  | { readonly type: 'stop'; readonly id: number }
  | { readonly type: 'close' };

export type FromWorker =
  | { readonly type: 'progress'; readonly progress: LoadProgress }
  | { readonly type: 'ready'; readonly model: ModelInfo; readonly device: DeviceFacts }
  /** The model was not loaded. */
  | { readonly type: 'failed'; readonly failure: Failure }
  /** What a big model's file hashes to is known after it is loaded. */
  | { readonly type: 'digest'; readonly digest: string }
  /** The request was taken when its first chunk comes; the one with a finish reason is the last. */
  | { readonly type: 'chunk'; readonly id: number; readonly chunk: ChatChunk }
  | { readonly type: 'broken'; readonly id: number; readonly failure: Failure }
  | { readonly type: 'gone'; readonly why: ChatFailure }
  | { readonly type: 'closed' };
