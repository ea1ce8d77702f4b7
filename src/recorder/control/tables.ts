import type { Generated } from 'kysely';
import type { RackId } from '../../watch/index.ts';
import type { ReviewEntry } from '../types.ts';

type Time = string;
type Json = string;

interface Settings {
  rack: RackId;
  /** Grows with every change. */
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
  /** Identity of the peer; null: granted before identities were stored, or by a recorder that has none. */
  to_id: string | null;
  /** The end of the history when it was granted; null: what is before it may be read, too. */
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
  /** Hex of the secret's SHA-256. */
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

/** Purges that were asked for and are not over. */
interface Purges {
  id: string;
  rack: RackId;
  /** Of the history that there is afterwards. */
  generation: number;
  at: Time;
  by: string;
  /** Of what there was when it was asked for. */
  found: Json;
}

export interface ControlTables {
  settings: Settings;
  grants: Grants;
  tokens: Tokens;
  review: Review;
  purges: Purges;
}
