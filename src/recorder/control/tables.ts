import type { Generated } from 'kysely';
import type { RackId } from '../../tracing/index.ts';
import type { ReviewEntry } from '../types.ts';

type Time = string;
type Json = string;

interface Settings {
  rack: RackId;
  /** Incremented with every change. */
  version: number;
  armed: 0 | 1;
  policy: Json;
  changed_at: Time | null;
  changed_by: string | null;
}

interface Grants {
  n: Generated<number>;
  id: string;
  rack: RackId;
  verbs: Json;
  to: string;
  /** Id of the peer; null: granted before ids were stored, or by a recorder without peer lookup. */
  to_id: string | null;
  /** Generation of the history at the time of the grant; null: earlier events can be read, too. */
  after_generation: number | null;
  after_seq: number | null;
  granted_at: Time;
  granted_by: string;
  expires_at: Time;
  revoked_at: Time | null;
}

interface Tokens {
  n: Generated<number>;
  id: string;
  rack: RackId;
  grant: string;
  /** SHA-256 of the secret in hex. */
  hash: string;
  label: string | null;
  minted_at: Time;
  minted_by: string;
  expires_at: Time;
  revoked_at: Time | null;
}

interface Review {
  seq: Generated<number>;
  at: Time;
  by: string;
  act: ReviewEntry['act'];
  rack: RackId | null;
  details: Json;
}

/** Unfinished purges. */
interface Purges {
  id: string;
  rack: RackId;
  /** Generation of the history after the purge. */
  generation: number;
  at: Time;
  by: string;
  /** Totals of the history at the time of the request. */
  found: Json;
}

export interface ControlTables {
  settings: Settings;
  grants: Grants;
  tokens: Tokens;
  review: Review;
  purges: Purges;
}
