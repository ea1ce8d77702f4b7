import { type Store, StoreError } from '../../store/index.ts';
import { sleep } from '../../util/sleep.ts';
import { postEvent } from '../../webhooks/post-event.ts';
import { toShownUrl } from '../../webhooks/shown-url.ts';
import { webhookHeaders, webhookKey } from '../../webhooks/sign.ts';
import type { EventFeed } from '../event-feed.ts';
import type { WebhookState } from '../shapes/webhook.ts';
import type { StoredSignals } from '../signals.ts';
import type { WebhookConfig } from './config.ts';
import { DeliveryStore, type DueDelivery } from './delivery-store.ts';

export interface WebhookTimings {
  /** Limit of one request. */
  readonly timeoutMs: number;
  /** Delay after the first failure; it doubles with each, and is randomized by a quarter. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** An event that was queued so long ago is not tried again. */
  readonly giveUpMs: number;
  /** How long other hosts on the database wait for a host that has ended. */
  readonly leaseMs: number;
  /** How often the database is looked at. */
  readonly pollMs: number;
}

export const defaultWebhookTimings: WebhookTimings = {
  timeoutMs: 15_000,
  firstDelayMs: 2000,
  maxDelayMs: 3_600_000,
  giveUpMs: 3 * 24 * 3_600_000,
  leaseMs: 60_000,
  pollMs: 250,
};

/** Requests to one endpoint at a time. */
const maxAtOnce = 4;
/** Delay after a failure of the database. */
const faultDelayMs = 2000;

interface WebhookSenderOptions {
  readonly config: WebhookConfig;
  readonly store: Store;
  readonly signals: StoredSignals;
  readonly feed: Pick<EventFeed, 'newest'>;
  readonly timings: WebhookTimings;
  readonly onNotice: (message: string) => void;
  readonly onFault: (where: string, error: unknown) => void;
}

/**
 * Posts events to one endpoint: at least once, those of one task, run or pending change in their order. Everything that
 * it must remember is in the database. One host of several on a database delivers at a time.
 */
export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #key: Buffer;
  readonly #label: string;
  /** Requests that are being made, by the `seq` of their event. */
  readonly #requests = new Map<number, Promise<void>>();
  #deliveries: DeliveryStore | undefined;
  #leasedUntilMs = Number.NEGATIVE_INFINITY;
  #isDisabled = false;
  #isGivingUp = false;

  constructor(options: WebhookSenderOptions) {
    const { url, secret } = options.config;
    const key = webhookKey(secret);
    if (!key) throw new Error('the secret of a webhook is invalid');
    this.#options = options;
    this.#key = key;
    this.#label = toShownUrl(url);
  }

  /** Reads or creates the endpoint's state in the database. Called before anything else; again where that failed. */
  async open(): Promise<DeliveryStore> {
    this.#deliveries ??= await DeliveryStore.open(this.#options.config.url, this.#options);
    return this.#deliveries;
  }

  /** Delivers until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { timings, onFault } = this.#options;
    while (!signal.aborted) {
      try {
        const deliveries = await this.open();
        if (await this.#hasLease(deliveries)) await this.#deliver(deliveries, signal);
        else await sleep(timings.leaseMs / 4, signal);
      } catch (error) {
        if (signal.aborted) break;
        onFault(`the webhook ${this.#label}`, error);
        await sleep(faultDelayMs, signal).catch(() => undefined);
      }
    }
    await Promise.all(this.#requests.values());
    if (this.#leasedUntilMs > 0) await this.#deliveries?.release().catch(() => undefined);
  }

  async state(): Promise<WebhookState> {
    const { config, store } = this.#options;
    const deliveries = await this.open();
    const row = await deliveries.row();
    const nextAt = await deliveries.nextAt();
    const isElsewhere = row.lease_by !== null && row.lease_by !== store.endpointId;
    return {
      url: this.#label,
      ...(config.types ? { types: [...config.types] } : {}),
      state: this.#isDisabled ? 'disabled' : isElsewhere ? 'elsewhere' : 'active',
      delivered: row.delivered,
      waiting: await deliveries.count(),
      given_up: row.given_up,
      ...(row.delivered_at === null ? {} : { last_delivered_at: row.delivered_at }),
      ...(row.last_error === null ? {} : { last_error: row.last_error }),
      ...(row.last_error_at === null ? {} : { last_error_at: row.last_error_at }),
      ...(nextAt === undefined || this.#isDisabled ? {} : { next_try_at: nextAt }),
    };
  }

  async #hasLease(deliveries: DeliveryStore): Promise<boolean> {
    const { timings } = this.#options;
    const now = performance.now();
    if (now < this.#leasedUntilMs - timings.leaseMs / 2) return true;
    const isOurs = await deliveries.lease(timings.leaseMs);
    this.#leasedUntilMs = isOurs ? now + timings.leaseMs : Number.NEGATIVE_INFINITY;
    return isOurs;
  }

  /** Queues and sends what there is, while this host has the lease. */
  async #deliver(deliveries: DeliveryStore, signal: AbortSignal): Promise<void> {
    const { feed, config, timings, store } = this.#options;
    const maxWaitMs = 2 * timings.maxDelayMs;
    let cursor = -1;
    // By the monotonic clock, which never jumps.
    let nextMs = Number.NEGATIVE_INFINITY;
    while (!this.#isDisabled && (await this.#hasLease(deliveries))) {
      signal.throwIfAborted();
      if ((await feed.newest()) > cursor) {
        cursor = await deliveries.queue(config.types);
        nextMs = Number.NEGATIVE_INFINITY;
      }
      const free = maxAtOnce - this.#requests.size;
      if (free > 0 && nextMs <= performance.now()) {
        const sending = [...this.#requests.keys()];
        const due = await deliveries.due(sending, { limit: free, maxDelayMs: maxWaitMs });
        for (const delivery of due) this.#begin(deliveries, delivery, signal);
        const nextAt = await deliveries.nextAt([...this.#requests.keys()]);
        const waitMs = nextAt === undefined ? maxWaitMs : Date.parse(nextAt) - store.now().getTime();
        nextMs = performance.now() + Math.min(waitMs, maxWaitMs);
      }
      const requests = [...this.#requests.values()];
      const ended = await Promise.race([
        ...requests.map((request) => request.then(() => true)),
        sleep(timings.pollMs, signal).then(() => false),
      ]);
      if (ended) nextMs = Number.NEGATIVE_INFINITY;
    }
    if (this.#isDisabled) await sleep(timings.leaseMs / 4, signal);
  }

  /** Stores an outcome, however long that takes: otherwise the event would be posted again at once. */
  async #insist(store: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await store();
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (isFirst) this.#options.onFault(`the webhook ${this.#label}`, error);
        await sleep(faultDelayMs, signal);
      }
    }
  }

  #begin(deliveries: DeliveryStore, delivery: DueDelivery, signal: AbortSignal): void {
    const { onFault } = this.#options;
    const { seq } = delivery;
    const request = this.#send(deliveries, delivery, signal)
      .catch((error: unknown) => {
        if (!signal.aborted) onFault(`the webhook ${this.#label}`, error);
      })
      .finally(() => this.#requests.delete(seq));
    this.#requests.set(seq, request);
  }

  async #send(
    deliveries: DeliveryStore,
    { seq, attempts, queuedAt, event }: DueDelivery,
    signal: AbortSignal,
  ): Promise<void> {
    const { config, timings, store, onNotice } = this.#options;
    const body = JSON.stringify(event);
    const atMs = store.now().getTime();
    // Unique over databases, and the same in each attempt.
    const id = `evt_${deliveries.id}_${seq}`;
    const headers = {
      ...config.headers,
      'content-type': 'application/json',
      'user-agent': 'lathe',
      ...webhookHeaders({ id, atMs, body }, this.#key),
    };
    const { timeoutMs } = timings;
    const result = await postEvent(config.url, { body, headers }, { timeoutMs, signal });
    if (result.kind === 'delivered') {
      this.#isGivingUp = false;
      return await this.#insist(() => deliveries.storeDelivered(seq), signal);
    }
    if (result.kind === 'gone') {
      this.#isDisabled = true;
      onNotice(`the webhook ${this.#label} answered 410: it gets no more events until the host is restarted`);
    }
    const error = result.kind === 'gone' ? 'status 410' : result.error;
    const nowMs = store.now().getTime();
    const isOver = result.kind === 'failed' && nowMs - Date.parse(queuedAt) >= timings.giveUpMs;
    const delayMs = Math.max(
      Math.min(timings.maxDelayMs, timings.firstDelayMs * 2 ** attempts) * (0.75 + Math.random() / 2),
      Math.min(timings.maxDelayMs, result.kind === 'failed' ? (result.retryAfterMs ?? 0) : 0),
    );
    const nextAt = isOver ? undefined : new Date(nowMs + delayMs).toISOString();
    await this.#insist(() => deliveries.storeFailed(seq, error, nextAt), signal);
    if (!isOver || this.#isGivingUp) return;
    this.#isGivingUp = true;
    onNotice(
      `the webhook ${this.#label} gives up event ${seq} (${event.type} of ${event.data.id}) and others as old: ${error}. GET /agent/v1/events?after=${seq - 1} has them.`,
    );
  }
}
