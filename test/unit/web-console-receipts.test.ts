import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { firstPrevDigest, computeReceiptDigest } from '../../src/agent/receipts/receipt-digest.ts';
import { computeKeyId, rawPublicKey, signBytes } from '../../src/signing/ed25519.ts';
import { checkReceipt, checkLink, type ReceiptKey } from '../../web/console/views/sessions/check-receipt.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const keyOf = (raw: Buffer): ReceiptKey => ({
  key_id: computeKeyId(raw),
  public_key: raw.toString('base64'),
});
const key = keyOf(rawPublicKey(publicKey));
const other = keyOf(rawPublicKey(generateKeyPairSync('ed25519').publicKey));

/** In the format of the host. */
function receipt(members: Record<string, unknown>) {
  const signed = { contract: 1, seq: 1, prev_digest: firstPrevDigest, ...members };
  const digest = computeReceiptDigest(signed);
  const value = signBytes(Buffer.from(digest), { privateKey });
  return { ...signed, digest, signature: { alg: 'ed25519', key_id: key.key_id, value } };
}
const first = receipt({ id: 't1', title: 'Zeile \u2028 "ü"', tokens: { prompt: 3, completion: 0.1 } });
const second = receipt({ id: 't2', seq: 2, prev_digest: first.digest });
const verdicts = async (...of: Parameters<typeof checkReceipt>) =>
  Object.fromEntries((await checkReceipt(...of)).map(({ check, ok }) => [check, ok]));

describe('a receipt, verified in the page', () => {
  it('is valid as the host signed it', async () => {
    expect(await verdicts(first, key)).toEqual({ Digest: true, Key: true, Signature: true });
  });

  it('is invalid after a member was changed, added or removed', async () => {
    expect(await verdicts({ ...first, title: 'another' } as typeof first, key)).toMatchObject({
      Digest: false,
    });
    expect(await verdicts({ ...first, more: 1 } as typeof first, key)).toMatchObject({ Digest: false });
    const { title: _, ...less } = first as typeof first & { title: string };
    expect(await verdicts(less, key)).toMatchObject({ Digest: false });
  });

  it('is invalid when the digest was computed again without the key', async () => {
    const forged = { ...first, id: 't9' };
    expect(await verdicts({ ...forged, digest: computeReceiptDigest(forged) }, key)).toEqual({
      Digest: true,
      Key: true,
      Signature: false,
    });
  });

  it('is invalid with another key, even under the same key ID', async () => {
    expect(await verdicts(first, other)).toEqual({ Digest: true, Key: false, Signature: false });
    expect(await verdicts(first, { ...other, key_id: key.key_id })).toEqual({
      Digest: true,
      Key: false,
      Signature: false,
    });
  });

  it('is not reported as genuine when the key is unknown', async () => {
    expect(await verdicts(first, undefined)).toEqual({ Digest: true, Key: undefined, Signature: undefined });
  });

  it('is invalid when the signature is not base64 or has another algorithm', async () => {
    const broken = { ...first, signature: { ...first.signature, value: '%' } };
    expect(await verdicts(broken, key)).toMatchObject({ Signature: false });
    const rsa = { ...first, signature: { ...first.signature, alg: 'rsa' } };
    expect(await verdicts(rsa, key)).toMatchObject({ Signature: false });
  });
});

describe('a link of the chain', () => {
  it('matches the previous receipt, or the start of the chain', () => {
    expect(checkLink(second, first).ok).toBe(true);
    expect(checkLink(first, undefined).ok).toBe(true);
    expect(checkLink(second, undefined).ok).toBeUndefined();
  });

  it('is invalid where a receipt is missing, was replaced, or claims to be the first', () => {
    expect(checkLink({ ...second, seq: 3 }, first).ok).toBe(false);
    expect(checkLink(second, receipt({ id: 'x' })).ok).toBe(false);
    expect(checkLink({ ...second, seq: 1 }, undefined).ok).toBe(false);
  });
});
