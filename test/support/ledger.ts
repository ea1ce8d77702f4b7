import type { BudgetNotice } from '../../src/gateway/budgets/notices.ts';
import { openLedger } from '../../src/gateway/ledger/index.ts';
import type { Ledger, Reservation, Settlement } from '../../src/gateway/ledger/types.ts';
import { GatewayStore } from '../../src/gateway/store/index.ts';

export interface OpenLedger {
  readonly store: GatewayStore;
  readonly ledger: Ledger;
  readonly faults: string[];
  /** Notices of budgets that this gateway's commits gave. */
  readonly notices: BudgetNotice[];
  close(): Promise<void>;
}

/** A gateway's ledger on a database; several of one database are its replicas. */
export async function ledgerOn(
  url: string,
  options: { readonly now?: () => Date; readonly beatMs?: number } = {},
): Promise<OpenLedger> {
  const { now, beatMs } = options;
  const replicaId = crypto.randomUUID();
  const store = await GatewayStore.open({ url, replicaId, ...(now ? { now } : {}) });
  const faults: string[] = [];
  const notices: BudgetNotice[] = [];
  const onFault = (message: string) => faults.push(message);
  const ledger = await openLedger({
    store,
    onFault,
    onBudgetNotice: (notice) => notices.push(notice),
    ...(beatMs === undefined ? {} : { heartbeatMs: beatMs }),
  });
  return {
    store,
    ledger,
    faults,
    notices,
    async close() {
      await ledger.close();
      await store.close();
    },
  };
}

export interface Payer {
  readonly accountId: string;
  readonly keyId: string;
}

export async function payerOf(
  ledger: Ledger,
  { cap, ...money }: { credit?: bigint; included?: bigint; cap?: bigint },
): Promise<Payer> {
  const { id: accountId } = await ledger.createAccount(crypto.randomUUID(), money);
  const { row } = await ledger.createKey({ account: accountId, ...(cap === undefined ? {} : { cap }) });
  return { accountId, keyId: row.id };
}

export const newRequest = (): string => `req_${crypto.randomUUID().replaceAll('-', '')}`;

export const reservation = (payer: Payer, amount: bigint, more: Partial<Reservation> = {}): Reservation => ({
  ...payer,
  requestId: newRequest(),
  amount,
  estimate: amount / 4n,
  requestedModel: 'auto',
  effectiveModel: 'one',
  provider: 'some',
  wire: 'chat',
  stream: false,
  byok: false,
  ...more,
});

/** Without cost: of a release. */
export const ending = (more: Partial<Settlement> = {}): Omit<Settlement, 'cost' | 'usage'> => ({
  effectiveModel: 'one',
  provider: 'some',
  reason: 'as_requested',
  endpoint: 'credits',
  status: 200,
  outcome: 'completed',
  pricingIdentity: 'sha256:00',
  totalMs: 12.5,
  firstByteMs: 3.4,
  ...more,
});

export const settlement = (total: bigint, more: Partial<Settlement> = {}): Settlement => ({
  ...ending(),
  cost: {
    total,
    components: { fresh: total - total / 2n, cache_write: 0n, cache_read: 0n, output: total / 2n },
  },
  usage: { fresh: 10, cacheWrite: 1, cacheWrite1h: 2, cacheRead: 3, output: 4 },
  ...more,
});
