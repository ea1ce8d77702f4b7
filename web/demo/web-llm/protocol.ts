/** What the page and web-llm's worker say to each other, one thing at a time. */
import type { Measured, Message } from '../conversation.ts';
import type { requestedSampling } from '../settings.ts';

export interface ListedModel {
  readonly id: string;
  /** The folder of its weights, in MLC's format. */
  readonly weights: string;
  readonly gpuMegabytes: number | undefined;
  readonly features: readonly string[];
}

export type ToWorker =
  | { readonly kind: 'load'; readonly id: string }
  | {
      readonly kind: 'ask';
      readonly messages: readonly Message[];
      readonly sampling: ReturnType<typeof requestedSampling>;
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
      /** The address that the policy of the page (CSP) did not allow. */
      readonly blocked: string | undefined;
    };
