import { randomBytes } from 'node:crypto';
import {
  type AssociatedData,
  EnvelopeError,
  type MasterKeys,
  encryptSecret,
  decryptSecret,
} from './envelope.ts';
import type { CredentialRow } from './tables.ts';

/** The columns that an envelope is bound to: a credential cannot be moved to another account or base URL. */
export const associatedDataOf = (
  row: Pick<CredentialRow, 'account_id' | 'provider' | 'id' | 'mode' | 'base_url' | 'last4'>,
): AssociatedData => [row.account_id, row.provider, row.id, row.mode, row.base_url, row.last4];

/** Keys shorter than this are not shown in part: four characters would reveal too much. */
const minShownLength = 12;

/** Builds a new record. @throws EnvelopeError when there is a key but no master key */
export function createRecord(
  masterKeys: MasterKeys,
  apiKey: string,
  columns: Pick<CredentialRow, 'account_id' | 'provider' | 'mode' | 'base_url' | 'created_at'>,
): CredentialRow {
  const row = {
    ...columns,
    id: `c_${randomBytes(8).toString('hex')}`,
    status: 'active' as const,
    last4: apiKey.length < minShownLength ? '' : apiKey.slice(-4),
  };
  if (apiKey === '')
    return { ...row, alg: 'none', kek_id: '', wrapped_key: '', iv: '', tag: '', ciphertext: '' };
  return { ...row, ...encryptSecret(masterKeys, associatedDataOf(row), apiKey) };
}

/** Decrypts the key of a record; empty for a record without a key. @throws EnvelopeError */
export function decryptRecord(masterKeys: MasterKeys, row: CredentialRow): string {
  if (row.alg !== 'none') return decryptSecret(masterKeys, associatedDataOf(row), { ...row, alg: row.alg });
  if (row.mode === 'registered' && row.ciphertext === '') return '';
  throw new EnvelopeError('it is marked as having no key, which is allowed for registered endpoints only');
}
