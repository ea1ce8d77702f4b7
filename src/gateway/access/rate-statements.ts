import type { GatewayStore, RowOf } from '../store/index.ts';
import { statementsOf } from '../store/index.ts';
import { rateColumns, runningColumns } from './tables.ts';

type Kind = GatewayStore['kind'];

/** The SQL statements of the shared limiter; each takes many keys. */
export function createRateStatements(kind: Kind) {
  const { prepare } = statementsOf(kind);
  return {
    /**
     * Locks the buckets of keys until the end of the transaction, and creates missing ones. The rows must be sorted by id,
     * so that two gateways cannot deadlock.
     */
    lockBuckets: prepare<typeof rateColumns, RowOf<typeof rateColumns>>(
      rateColumns,
      `insert into gateway_rate (key_id, full_at, tokens_full_at)
        select given.key_id, given.full_at, given.tokens_full_at from {given} where true
        on conflict (key_id) do update set full_at = gateway_rate.full_at
        returning key_id, full_at, tokens_full_at`,
    ),
    writeBuckets: prepare(
      rateColumns,
      `insert into gateway_rate (key_id, full_at, tokens_full_at)
        select given.key_id, given.full_at, given.tokens_full_at from {given} where true
        on conflict (key_id) do update
          set full_at = excluded.full_at, tokens_full_at = excluded.tokens_full_at`,
    ),
    /** Requests that run on gateways other than `replica_id` and whose rows expire after `expires_at`. */
    runningElsewhere: prepare<typeof runningColumns, { key_id: string; running: bigint }>(
      runningColumns,
      `select one.key_id as key_id, cast(sum(one.running) as bigint) as running
        from gateway_running as one, {given}
        where one.key_id = given.key_id and one.replica_id <> given.replica_id and one.expires_at > given.expires_at
        group by one.key_id`,
    ),
    writeRunning: prepare(
      runningColumns,
      `insert into gateway_running (key_id, replica_id, running, expires_at)
        select given.key_id, given.replica_id, given.running, given.expires_at from {given} where true
        on conflict (key_id, replica_id) do update set running = excluded.running, expires_at = excluded.expires_at`,
    ),
    /** Deletes rows of gateways that died. */
    deleteExpired: prepare(
      { expires_at: 'integer' },
      'delete from gateway_running as one using {given} where one.expires_at < given.expires_at',
    ),
  };
}
