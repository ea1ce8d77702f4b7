import { toStorableText, type GatewayDb, type GatewayStore, type GatewayTx } from '../store/index.ts';
import { currentActor } from '../ledger/actor.ts';
import type { ChangeLog } from '../ledger/change-log.ts';

interface DisabledTable {
  provider: string;
  /** Empty: all models of the provider. */
  model: string;
  at: string;
  /** Who disabled it. */
  actor: string;
  note: string | null;
}
type DisabledTables = { gateway_disabled: DisabledTable };

/** A provider, or one model at it, that an operator disabled. */
export interface DisabledDeployment {
  readonly provider: string;
  /** Undefined: all models of the provider. */
  readonly model: string | undefined;
  readonly at: string;
  readonly by: string;
  readonly note: string | undefined;
}

export interface DeploymentSwitch {
  readonly provider: string;
  readonly model?: string | undefined;
  readonly isDisabled: boolean;
  /** Why; kept while it is disabled. */
  readonly note?: string | undefined;
}

export interface DisabledDeploymentsOptions {
  readonly store: GatewayStore;
  readonly log: ChangeLog;
  readonly onFault: (error: unknown) => void;
  /** How often changes of other gateways and of commands are read, in ms. */
  readonly intervalMs?: number;
}

/** Other gateways of the database follow a change within this time, in ms. */
const defaultIntervalMs = 2000;

/**
 * The providers and deployments that operators disabled while gateways run. They are stored in the database, so they stay disabled
 * after a restart and on every gateway of it. While the database is out, what was read last applies.
 */
export class DisabledDeployments {
  readonly #options: DisabledDeploymentsOptions;
  #rows: ReadonlyMap<string, DisabledDeployment> = new Map();
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<unknown> = Promise.resolve();
  /** Counts the changes of this gateway: what was read before one is out of date. */
  #changes = 0;
  #isFailing = false;

  constructor(options: DisabledDeploymentsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#read();
    this.#timer = setInterval(() => {
      this.#reading = this.#read().then(
        () => (this.#isFailing = false),
        (error: unknown) => {
          // Once for each outage.
          if (!this.#isFailing) this.#options.onFault(error);
          this.#isFailing = true;
        },
      );
    }, this.#options.intervalMs ?? defaultIntervalMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#reading;
  }

  /** Whether a model gets no requests at a provider. */
  has(provider: string, model: string): boolean {
    return (
      this.#rows.size > 0 && (this.#rows.has(keyOf(provider, '')) || this.#rows.has(keyOf(provider, model)))
    );
  }

  /** How a provider, or one model at it, was disabled; undefined: it was not. */
  find(provider: string, model?: string): DisabledDeployment | undefined {
    return this.#rows.get(keyOf(provider, model ?? ''));
  }

  /** Disables or enables; a change is logged. Where it is so already, nothing changes. */
  async set({ provider, model, isDisabled, note }: DeploymentSwitch): Promise<void> {
    const { store, log } = this.#options;
    const id = { provider, model: model ?? '' };
    const rows = await log.apply(
      async (tx) => {
        const known = await table(tx)
          .selectAll()
          .where('provider', '=', id.provider)
          .where('model', '=', id.model)
          .executeTakeFirst();
        if ((known !== undefined) === isDisabled) return undefined;
        const what = model === undefined ? 'provider' : 'deployment';
        const subject = model === undefined ? provider : `${provider}/${model}`;
        if (isDisabled)
          await tx
            .withTables<DisabledTables>()
            .insertInto('gateway_disabled')
            .values({
              ...id,
              at: store.time(),
              actor: toStorableText(currentActor() ?? log.actor),
              note: note === undefined ? null : toStorableText(note),
            })
            .execute();
        else
          await tx
            .withTables<DisabledTables>()
            .deleteFrom('gateway_disabled')
            .where('provider', '=', id.provider)
            .where('model', '=', id.model)
            .execute();
        return {
          subject,
          action: `${what} ${isDisabled ? 'disable' : 'enable'}`,
          ...(isDisabled && note !== undefined ? { after: { note } } : {}),
        };
      },
      (tx) => table(tx).selectAll().execute(),
    );
    this.#changes += 1;
    this.#replace(rows);
  }

  async #read(): Promise<void> {
    const changes = this.#changes;
    const rows = await this.#options.store.read((db) => table(db).selectAll().execute());
    if (changes === this.#changes) this.#replace(rows);
  }

  #replace(rows: readonly DisabledTable[]): void {
    this.#rows = new Map(
      rows.map(({ provider, model, at, actor, note }) => [
        keyOf(provider, model),
        { provider, model: model || undefined, at, by: actor, note: note ?? undefined },
      ]),
    );
  }
}

/** Ids of providers have no spaces. */
const keyOf = (provider: string, model: string): string => `${provider} ${model}`;
const table = (db: GatewayDb | GatewayTx) => db.withTables<DisabledTables>().selectFrom('gateway_disabled');
