/** Messages between the page and web-llm's worker. At most one request is in progress. */
import type { Measured, Message } from '../conversation.ts';
import type { samplingMembers } from '../settings.ts';

export interface ListedModel {
  readonly id: string;
  /** URL of the folder with its weights, in MLC format. */
  readonly weights: string;
  readonly gpuMegabytes: number | undefined;
  readonly features: readonly string[];
}

export type ToWorker =
  | { readonly kind: 'load'; readonly id: string }
  | {
      readonly kind: 'ask';
      readonly messages: readonly Message[];
      readonly sampling: ReturnType<typeof samplingMembers>;
    }
  | { readonly kind: 'stop' };

export type FromWorker =
  | { readonly kind: 'models'; readonly models: readonly ListedModel[] }
  | { readonly kind: 'progress'; readonly share: number; readonly message: string }
  | { readonly kind: 'loaded' }
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'answered';
      readonly finish: 'stop' | 'length' | undefined;
      readonly measured: Measured | undefined;
    }
  | {
      readonly kind: 'failed';
      readonly message: string;
      /** URL that the page's Content-Security-Policy blocked. */
      readonly blocked: string | undefined;
    };
