import { hostname } from 'node:os';
import { sql } from 'kysely';
import type { Database } from '../../store/index.ts';
import { type GatewayStore, type RowOf, type Statement, statementsOf } from '../store/index.ts';
import type { HoldRow } from './operations.ts';

/** A gateway without a heartbeat for this long counts as dead, in ms. */
const heartbeatTimeoutMs = 30_000n;
/** Rows of gateways without a heartbeat for this long are deleted, in ms. */
const replicaRetentionMs = 24n * 60n * 60n * 1000n;

const replicaColumns = { id: 'text', host: 'text', pid: 'integer', origin: 'integer' } as const;

/** SQL of the current time by the database's clock, which all gateways share, in ms since 1970. */
const clockSql = (kind: Database['kind']): string =>
  kind === 'postgres'
    ? 'cast(floor(extract(epoch from clock_timestamp()) * 1000) as bigint)'
    : "cast(unixepoch('subsec') * 1000 as integer)";

export const heartbeatStatement = (kind: Database['kind']): Statement<typeof replicaColumns> =>
  statementsOf(kind).prepare(
    replicaColumns,
    `insert into gateway_replicas (id, host, pid, origin, beat_at)
     select given.id, given.host, given.pid, given.origin, ${clockSql(kind)} from {given} where true
     on conflict (id) do update set beat_at = excluded.beat_at`,
  );

/** The `gateway_replicas` row of this gateway, without its heartbeat. */
export function ownReplica(id: string): RowOf<typeof replicaColumns> {
  const origin = BigInt(Math.round(performance.timeOrigin));
  return { id, host: hostname(), pid: BigInt(process.pid), origin };
}

/**
 * Finds orphaned holds: holds of gateways that are dead. A gateway is dead if its heartbeat is overdue, if it deleted its
 * row when it stopped, or, with SQLite, if its process on this machine is gone.
 */
export async function findOrphanedHolds(store: GatewayStore, maxRows: number): Promise<HoldRow[]> {
  const self = ownReplica(store.replicaId);
  const silenceSql = sql<bigint>`${sql.raw(clockSql(store.kind))} - beat_at`;
  return await store.read(async (db) => {
    // Holds are read before replicas, so that a gateway that starts between the two statements is not taken for dead.
    const holders = await db
      .selectFrom('gateway_holds')
      .select('replica_id')
      .distinct()
      // This gateway is alive, even if its own heartbeat is late.
      .where('replica_id', '<>', self.id)
      .execute();
    if (holders.length === 0) return [];
    const replicas = await db
      .selectFrom('gateway_replicas')
      .selectAll()
      .select(silenceSql.as('silent'))
      .execute();
    const alive = new Set(
      replicas
        .filter(
          (row) =>
            row.silent <= heartbeatTimeoutMs && !(store.kind === 'sqlite' && hasProcessEnded(row, self)),
        )
        .map(({ id }) => id),
    );
    const dead = holders.map(({ replica_id }) => replica_id).filter((id) => !alive.has(id));
    if (dead.length === 0) return [];
    return await db
      .selectFrom('gateway_holds')
      .selectAll()
      .where('replica_id', 'in', dead)
      .limit(maxRows)
      .execute();
  });
}

/** Whether a process of this machine is gone, or its pid now belongs to another process. */
function hasProcessEnded(row: RowOf<typeof replicaColumns>, self: RowOf<typeof replicaColumns>): boolean {
  if (row.host !== self.host) return false;
  if (row.pid === self.pid) return row.origin !== self.origin;
  try {
    process.kill(Number(row.pid), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Deletes the rows of gateways that stopped long ago. */
export async function deleteStaleReplicas(store: GatewayStore): Promise<void> {
  await store.transaction((tx) =>
    tx
      .deleteFrom('gateway_replicas')
      .where(sql<bigint>`${sql.raw(clockSql(store.kind))} - beat_at`, '>', replicaRetentionMs)
      .execute(),
  );
}
