import type { Insertable } from 'kysely';
import type { Tables } from '../../store/index.ts';
import type { TokenCounts } from '../shapes/common.ts';
import type { ExternalRegistration } from '../shapes/external-session.ts';
import type { Session } from '../shapes/session.ts';

type Row = Tables['external_sessions'];

/** Columns of a registration. */
const registrationColumns = (request: ExternalRegistration) => ({
  harness: request.harness,
  client: request.client ?? null,
  title: request.title ?? null,
  cwd: request.cwd ?? null,
  pid: request.pid ?? null,
  labels: request.labels ? JSON.stringify(sortLabels(request.labels)) : null,
});

const sortLabels = (labels: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));

/** @param created.hash hash of the secret */
export const toExternalRow = (
  request: ExternalRegistration,
  created: { id: string; endpointId: string; hash: string; at: string },
): Insertable<Row> => ({
  id: created.id,
  endpoint_id: created.endpointId,
  secret_hash: created.hash,
  ...registrationColumns(request),
  idempotency_key: request.idempotency_key ?? null,
  status: 'running',
  last_event: null,
  tokens_claimed: null,
  started_at: created.at,
  beat_at: created.at,
  ended_at: null,
  outcome: null,
  close_reason: null,
});

/** Whether a repeated registration equals the stored one. */
export function isSameRegistration(row: Row, request: ExternalRegistration): boolean {
  const repeated = registrationColumns(request);
  return (Object.keys(repeated) as (keyof typeof repeated)[]).every((name) => row[name] === repeated[name]);
}

export const toExternalSession = (row: Row, stale: boolean): Session => ({
  id: row.id,
  kind: 'external',
  title: row.title ?? row.harness,
  state: row.status,
  started_at: row.started_at,
  ...(row.last_event === null ? {} : { last_event: row.last_event }),
  ...(row.cwd === null ? {} : { cwd: row.cwd }),
  cancellable: false,
  harness: row.harness,
  ...(row.client === null ? {} : { client: row.client }),
  stale,
  ...(row.tokens_claimed === null ? {} : { tokens_claimed: JSON.parse(row.tokens_claimed) as TokenCounts }),
});
