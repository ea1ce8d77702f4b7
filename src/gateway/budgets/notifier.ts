import { errorMessage } from '../../util/error-message.ts';
import { sleep } from '../../util/sleep.ts';
import { postEvent } from '../../webhooks/post-event.ts';
import { toShownUrl } from '../../webhooks/shown-url.ts';
import { webhookHeaders } from '../../webhooks/sign.ts';
import type { GatewayConfig } from '../config/types.ts';
import type { GatewayStore, Row } from '../store/index.ts';

type NoticeRow = Row<'gateway_notices'>;

export interface NotifierTimings {
  /** Limit of one request. */
  readonly timeoutMs: number;
  /** Delay after the first failure; it doubles with each. Longer than `timeoutMs`: until then the notice is this gateway's. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** A notice that is this old is not posted any more. */
  readonly giveUpMs: number;
  /** How often notices of other gateways are looked for. */
  readonly pollMs: number;
}

const defaultTimings: NotifierTimings = {
  timeoutMs: 15_000,
  firstDelayMs: 20_000,
  maxDelayMs: 3_600_000,
  giveUpMs: 3 * 24 * 3_600_000,
  pollMs: 5000,
};
const maxAtOnce = 16;

interface NotifierOptions {
  readonly store: GatewayStore;
  /** Undefined: notices are only deleted when they are old. */
  readonly webhook: GatewayConfig['webhook'];
  readonly onNotice: (message: string) => void;
  readonly timings?: NotifierTimings;
}

/**
 * Posts the notices of budgets to the webhook, each at least once: by whichever gateway of the database takes it first. If that
 * one dies, another gateway tries again.
 */
export class BudgetNotifier {
  readonly #options: NotifierOptions;
  readonly #timings: NotifierTimings;
  readonly #abort = new AbortController();
  #pause = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#timings = options.timings ?? defaultTimings;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Posts new notices now. */
  wake(): void {
    this.#pause.abort();
  }

  /** Waits until no request runs. */
  async close(): Promise<void> {
    this.#abort.abort();
    this.#pause.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      this.#pause = new AbortController();
      try {
        await this.#deleteOld();
        const due = this.#options.webhook ? await this.#findDue() : [];
        await Promise.all(due.map((notice) => this.#post(notice)));
        if (due.length === maxAtOnce) continue;
      } catch (error) {
        if (signal.aborted) break;
        this.#options.onNotice(`notices of budgets could not be posted: ${errorMessage(error)}`);
      }
      await sleep(this.#timings.pollMs, AbortSignal.any([signal, this.#pause.signal])).catch(() => undefined);
    }
  }

  async #deleteOld(): Promise<void> {
    const { store } = this.#options;
    const oldest = new Date(store.now().getTime() - this.#timings.giveUpMs).toISOString();
    const found = await store.read((db) =>
      db.selectFrom('gateway_notices').select('id').where('at', '<', oldest).limit(1).execute(),
    );
    if (found.length === 0) return;
    await store.transaction((tx) => tx.deleteFrom('gateway_notices').where('at', '<', oldest).execute());
  }

  /** A notice whose time is further away than a delay can be, because a clock was wrong, is due as well. */
  async #findDue(): Promise<NoticeRow[]> {
    const { store } = this.#options;
    const latest = new Date(store.now().getTime() + this.#timings.maxDelayMs).toISOString();
    return await store.read((db) =>
      db
        .selectFrom('gateway_notices')
        .selectAll()
        .where((e) => e.or([e('next_at', '<=', store.time()), e('next_at', '>', latest)]))
        .orderBy('next_at')
        .orderBy('id')
        .limit(maxAtOnce)
        .execute(),
    );
  }

  async #post(notice: NoticeRow): Promise<void> {
    const { webhook, store, onNotice } = this.#options;
    if (!webhook || !(await this.#claim(notice))) return;
    const { id, body } = notice;
    const headers = webhookHeaders({ id, atMs: store.now().getTime(), body }, webhook.key);
    const result = await postEvent(
      webhook.url,
      { body, headers: { 'content-type': 'application/json', ...headers } },
      { timeoutMs: this.#timings.timeoutMs, signal: this.#abort.signal },
    );
    if (result.kind === 'failed') {
      onNotice(`the webhook ${toShownUrl(webhook.url)} did not take the notice ${id}: ${result.error}`);
      return;
    }
    await store.transaction((tx) => tx.deleteFrom('gateway_notices').where('id', '=', id).execute());
  }

  /** Sets the time of the next attempt. @returns false when another gateway was faster */
  async #claim({ id, attempts, next_at }: NoticeRow): Promise<boolean> {
    const { store } = this.#options;
    const { firstDelayMs, maxDelayMs } = this.#timings;
    const delayMs = Math.min(firstDelayMs * 2 ** Math.min(Number(attempts), 30), maxDelayMs);
    const nextAt = new Date(store.now().getTime() + delayMs).toISOString();
    const { numUpdatedRows } = await store.transaction((tx) =>
      tx
        .updateTable('gateway_notices')
        .set({ attempts: attempts + 1n, next_at: nextAt })
        .where('id', '=', id)
        .where('attempts', '=', attempts)
        .where('next_at', '=', next_at)
        .executeTakeFirstOrThrow(),
    );
    return numUpdatedRows === 1n;
  }
}
