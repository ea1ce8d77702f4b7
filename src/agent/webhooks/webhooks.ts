import type { Store } from '../../store/index.ts';
import type { EventFeed } from '../event-feed.ts';
import type { WebhookState } from '../shapes/webhook.ts';
import type { StoredSignals } from '../signals.ts';
import type { WebhookConfig } from './config.ts';
import { defaultWebhookTimings, WebhookSender, type WebhookTimings } from './webhook-sender.ts';

export interface WebhooksOptions {
  readonly configs: readonly WebhookConfig[];
  readonly store: Store;
  readonly signals: StoredSignals;
  readonly feed: Pick<EventFeed, 'newest'>;
  readonly timings?: Partial<WebhookTimings>;
  readonly onNotice: (message: string) => void;
  readonly onFault: (where: string, error: unknown) => void;
}

/** The endpoints that this host posts events to. */
export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #stopping = new AbortController();
  #senders: readonly WebhookSender[] = [];
  #running: Promise<unknown> | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
  }

  /** From now on, new endpoints get events. */
  async start(): Promise<void> {
    const { configs, timings, ...shared } = this.#options;
    this.#senders = configs.map(
      (config) => new WebhookSender({ ...shared, config, timings: { ...defaultWebhookTimings, ...timings } }),
    );
    // A full disk does not keep the host from starting; `run` tries again.
    for (const sender of this.#senders)
      await sender.open().catch((error: unknown) => shared.onFault('webhooks', error));
    this.#running = Promise.all(this.#senders.map((sender) => sender.run(this.#stopping.signal)));
  }

  /** In the order of the configuration. */
  async list(): Promise<WebhookState[]> {
    return await Promise.all(this.#senders.map((sender) => sender.state()));
  }

  /** Ends requests that are being made; the next start repeats them. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the host was stopped'));
    await this.#running;
  }
}
